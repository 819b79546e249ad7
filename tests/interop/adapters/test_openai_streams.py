"""Streamed replies of OpenAI's client: the program receives each event, and the loop reads the complete reply."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from openai import OpenAI
from wasmrt.adapters import anthropic, openai

from wasmrt.core.errors import ConfigurationError, ExternalServiceError

from .models import (
    anthropic_client,
    async_openai_client,
    async_openai_responses_client,
    openai_client,
    openai_responses_client,
)
from .test_adapters import Desk

ASK = [{"role": "user", "content": "go"}]
LOOK = [("look", {"what": "up"}), ("look", {"what": "down"})]
APIS: dict[str, tuple[Any, Any, Any, Any]] = {
    "chat": (openai.run, openai_client, openai.arun, async_openai_client),
    "responses": (
        openai.run_responses, openai_responses_client, openai.arun_responses, async_openai_responses_client,
    ),
}  # fmt: skip
every_api = pytest.mark.parametrize(("run", "client", "arun", "aclient"), APIS.values(), ids=APIS)


def without_stream(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in each.items() if not key.startswith("stream")} for each in requests]


@every_api
def test_streamed_conversation_equals_the_unstreamed_one(run: Any, client: Any, arun: Any, aclient: Any) -> None:
    whole, streamed, heard = Desk(), Desk(), list[Any]()
    (plain, asked), (pieces, asked_so) = client([LOOK, "done"]), client([LOOK, "done"])
    with plain, pieces:
        first = run(plain, whole.registry, ASK, model="m")
        second = run(pieces, streamed.registry, ASK, model="m", on_event=heard.append)
    assert [each.get("stream") for each in asked + asked_so] == [None, None, True, True]
    assert without_stream(asked_so) == asked
    assert streamed.done == whole.done == ["up", "down"]
    assert (second.messages, second.tokens, second.finished) == (first.messages, first.tokens, True)
    assert "parsed_arguments" not in json.dumps(asked_so) and len(heard) > 6


@every_api
def test_events_are_delivered_one_by_one_without_blocking(run: Any, client: Any, arun: Any, aclient: Any) -> None:
    heard: list[Any] = []

    async def hear(event: Any) -> None:
        heard.append(event)

    async def converse() -> Any:
        async_client, _ = aclient([LOOK, "done"])
        async with async_client:
            return await arun(async_client, Desk().registry, ASK, model="m", on_event=hear)

    held = asyncio.run(converse())
    assert held.finished and len(held.answers) == 2 and len(heard) > 6


def test_chat_text_is_delivered_in_chunks() -> None:
    said: list[str] = []

    def hear(chunk: Any) -> None:
        said.extend(choice.delta.content for choice in chunk.choices if choice.delta.content)

    client, _ = openai_client(["done"])
    with client:
        held = openai.run(client, Desk().registry, ASK, model="m", on_event=hear)
    assert said == ["d", "o", "n", "e"] and held.reply.choices[0].message.content == "done"


def cut_client(events: list[dict[str, Any]]) -> OpenAI:
    """Return a client of a model whose stream ends after these events."""
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=body)
    return OpenAI(api_key="unused", http_client=httpx2.Client(transport=httpx2.MockTransport(lambda _: answer)))


_CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": '{"what": "up"}'}}
_CHUNK = {
    "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
    "choices": [{"index": 0, "delta": {"tool_calls": [_CALL]}, "finish_reason": None}],
}  # fmt: skip
_ITEM = {"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": '{"what": "up"}'}


@pytest.mark.parametrize(
    ("run", "events"),
    [
        (openai.run, []),
        (openai.run, [_CHUNK]),
        (openai.run_responses, []),
        (openai.run_responses, [{"type": "response.output_item.done", "output_index": 0, "item": _ITEM}]),
    ],
    ids=["chat, nothing", "chat, a call", "responses, nothing", "responses, a call"],
)
def test_calls_of_an_incomplete_stream_are_not_made(run: Any, events: list[dict[str, Any]]) -> None:
    desk = Desk()
    with cut_client(events) as client, pytest.raises(ExternalServiceError, match="ended before its reply"):
        run(client, desk.registry, ASK, model="m", on_event=lambda _: None)
    assert desk.done == [] and desk.receipts == []


def test_failed_response_is_the_reply_and_ends_the_conversation() -> None:
    failed = {
        "id": "r", "object": "response", "created_at": 1, "model": "m", "output": [], "status": "failed", "tools": [],
        "parallel_tool_calls": True, "tool_choice": "auto", "error": {"code": "server_error", "message": "no"},
    }  # fmt: skip
    event = {"type": "response.failed", "sequence_number": 0, "response": failed}
    with cut_client([event]) as client:
        held = openai.run_responses(client, Desk().registry, ASK, model="m", on_event=lambda _: None)
    assert (held.finished, held.reply.status) == (True, "failed")


def test_unsupported_streams_are_rejected_before_the_first_request() -> None:
    client, requests = anthropic_client(["done"])
    with client, pytest.raises(ConfigurationError, match="not supported"):
        anthropic.run(client, Desk().registry, ASK, model="m", max_tokens=9, on_event=lambda _: None)
    assert requests == []


def test_response_tool_definitions_are_not_strict() -> None:
    client, requests = openai_responses_client(["done"])
    with client:
        openai.run_responses(client, Desk().registry, ASK, model="m", instructions="be brief")
    assert [(each["type"], each["strict"]) for each in requests[0]["tools"]] == [("function", False)] * 2
    assert requests[0]["instructions"] == "be brief"
