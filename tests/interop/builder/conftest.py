"""A registry with `build_software`, whose model replies from a script."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.compiled import Installation
from wasmrt import CallbackApprover, ToolPolicy, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.agent.approvals import ApprovalRequest
from wasmrt.agent.registry import ToolAnswer, ToolRegistry
from wasmrt.authoring.builder import BuilderConfig
from wasmrt.authoring.project import toolchains_dir
from wasmrt.interop.builder import builder_tool

DOWNLOADS = os.environ.get("WASMRT_GUESTS_PREPARE") == "1"
Step = str | list[tuple[str, dict[str, Any]]] | Callable[[Sequence[Mapping[str, Any]]], Any]


def requirement(**changes: Any) -> str:
    """Return the analysis of a model."""
    base = {"name": "words", "description": "Counts words.", "software_type": "wasm_tool", "language": "rust"}
    return f"Here it is: {json.dumps(base | changes)}"


class Script:
    """A model that replies with texts and tool calls from a list; the last reply repeats."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.seen: list[list[dict[str, Any]]] = []
        self.tools: list[Any] = []

    def __call__(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        self.seen.append([dict(each) for each in messages])
        self.tools.append([each["function"]["name"] for each in tools])
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if callable(step):
            step = step(messages)
        if isinstance(step, str):
            return {"content": step}
        calls = [
            {"id": f"call-{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(params)}}
            for at, (name, params) in enumerate(step)
        ]
        return {"content": None, "tool_calls": calls}

    def last_results(self) -> list[str]:
        """Return the results of the calls that the model saw in its last turn."""
        return [each["content"] for each in self.seen[-1] if each["role"] == "tool"]


class Agent:
    """A registry with `build_software`, and a user who approves every request unless `answer` is replaced."""

    def __init__(self, registry: ToolRegistry, receipts: list[dict[str, Any]], folder: Path) -> None:
        self.registry = registry
        self.receipts = receipts
        self.folder = folder
        self.asked: list[ApprovalRequest] = []
        self.answer: Callable[[ApprovalRequest], Any] = lambda _: True

    def decide(self, request: ApprovalRequest) -> Any:
        """Record a request, and answer it."""
        self.asked.append(request)
        return self.answer(request)

    def answer_to(self, model: Script, description: str = "Count words.", **options: Any) -> ToolAnswer:
        """Return the answer of a call of `build_software`."""
        params = {key: options.pop(key) for key in ("type", "language") if key in options}
        config = BuilderConfig(**{"build_dir": self.folder / "builds", "allow_downloads": DOWNLOADS, **options})
        tool = builder_tool(self.registry, model=model, config=config)
        if tool.name in self.registry.all_names():
            self.registry.remove(tool.name)
        self.registry.register(tool, builtin=True)
        call = {"name": tool.name, "arguments": {"description": description, **params}}
        return self.registry.answer(call)

    def build(self, model: Script, description: str = "Count words.", **options: Any) -> dict[str, Any]:
        """Return the result of a call of `build_software`."""
        answer = self.answer_to(model, description, **options)
        assert answer.output is not None, answer.error
        return dict(answer.output.result)


MakeAgent = Callable[..., Agent]


@pytest.fixture
def make_agent(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeAgent]:
    monkeypatch.setenv("WASMRT_TOOLCHAINS", str(toolchains_dir()))
    monkeypatch.setenv("WASMRT_HOME", str(sharing_code(tmp_path / "home")))
    monkeypatch.setenv("CARGO_NET_OFFLINE", "true")
    with ExitStack() as opened:

        def make(policy: ToolPolicy | None = None) -> Agent:
            receipts: list[dict[str, Any]] = []
            runtime = opened.enter_context(WasmToolRuntime(WasmRuntimeConfig(audit=receipts.append)))
            approver = CallbackApprover(lambda request: made.decide(request))
            registry = opened.enter_context(ToolRegistry(runtime, policy=policy, approver=approver))
            registry.register(runtime.prepare_installed("http"), builtin=True)
            made = Agent(registry, receipts, tmp_path)
            return made

        yield make


@pytest.fixture
def agent(make_agent: MakeAgent) -> Agent:
    return make_agent()
