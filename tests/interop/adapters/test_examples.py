"""The examples of the adapters, each run with a scripted model of its framework's test kit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from examples import (
    with_anthropic,
    with_anthropic_runner,
    with_langchain,
    with_langgraph,
    with_openai,
    with_openai_agents,
    with_pydantic_ai,
)
from wasmrt import ApprovalRequest, CallbackApprover, ToolRegistry

from .models import SEND, AgentsModel, anthropic_client, chat_model, openai_client, pydantic_model

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("with_*.py"))
SENT = "sent hi to bob@example.com"
answers = pytest.mark.parametrize("says", [True, False], ids=["approved", "denied"])


class Person:
    """Gives the same answer to every question, and records the questions."""

    def __init__(self, says: bool) -> None:
        self.says = says
        self.asked: list[Any] = []

    def __call__(self, *asked: Any) -> bool:
        """Answer a question."""
        self.asked.append(asked)
        return self.says

    @property
    def approver(self) -> CallbackApprover:
        """Return an approver of a registry that asks this person."""
        return CallbackApprover(self._approve)

    def _approve(self, request: ApprovalRequest) -> bool:
        return self(request.tool, dict(request.params), request.user)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_have_at_most_thirty_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 30


def test_every_adapter_has_an_example() -> None:
    adapters = {path.stem for path in (Path(__file__).parents[3] / "wasmrt/interop/adapters").glob("[a-z]*.py")}
    assert {path.stem.removeprefix("with_") for path in EXAMPLES} == adapters


@answers
def test_pydantic_ai(says: bool) -> None:
    person, seen = Person(says), []
    model = pydantic_model([SEND, "done"], seen)
    assert asyncio.run(with_pydantic_ai.answer(model, "write to bob", person)) == "done"
    [(asked,)] = person.asked
    assert asked["tool"] == "send" and asked["parameters"] == SEND[0][1] and asked["user"] == "ann"
    assert "change something outside" in asked["why"]
    told = str(seen[-1][0][-1].parts[0].content)
    assert (SENT in told) is says


@answers
def test_openai_agents(says: bool) -> None:
    person, model = Person(says), AgentsModel([SEND, "done"])
    assert asyncio.run(with_openai_agents.answer(model, "write to bob", person)) == "done"
    [(name, arguments)] = person.asked
    assert name == "send" and json.loads(arguments) == SEND[0][1]
    assert (SENT in str(model.seen[-1])) is says


@answers
def test_langchain(says: bool) -> None:
    person, model = Person(says), chat_model([SEND, "done"])
    messages = with_langchain.answer(model, "write to bob", person.approver)
    assert messages[-1].content == "done"
    assert person.asked == [("send", SEND[0][1], "ann")]
    assert (SENT in messages[2].content) is says
    assert messages[2].status == ("success" if says else "error")


@answers
def test_langgraph(says: bool) -> None:
    registry = ToolRegistry()
    registry.register(with_langchain.send)
    person, model = Person(says), chat_model([SEND, "done"])
    messages = with_langgraph.answer(registry, model, "write to bob", person)
    assert messages[-1].content == "done"
    [(asked,)] = person.asked
    assert asked["parameters"] == SEND[0][1]
    assert (SENT in messages[2].content) is says


def by_anthropic(example: Any, says: bool) -> Any:
    """Run an example with Anthropic's client, and return its result."""
    person = Person(says)
    client, requests = anthropic_client([SEND, "done"])
    with client:
        said = example.answer(client, "write to bob", person.approver)
    assert person.asked == [("send", SEND[0][1], "ann")]
    [result] = requests[-1]["messages"][-1]["content"]
    assert (SENT in result["content"]) is says and result.get("is_error", False) is not says
    return said


@answers
def test_anthropic_runner(says: bool) -> None:
    assert by_anthropic(with_anthropic_runner, says) == "done"


@answers
def test_anthropic(says: bool) -> None:
    said, tokens = by_anthropic(with_anthropic, says)
    assert said == "done" and tokens["input_tokens"] == 20


@answers
def test_openai(says: bool) -> None:
    person = Person(says)
    client, requests = openai_client([SEND, "done"])
    with client:
        said, tokens = with_openai.answer(client, "write to bob", person.approver)
    assert said == "done" and tokens["total_tokens"] == 30
    assert person.asked == [("send", SEND[0][1], "ann")]
    assert (SENT in requests[-1]["messages"][-1]["content"]) is says
