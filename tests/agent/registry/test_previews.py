"""Previews of calls: a tool can check whether the approver of this call saw its preview."""

from __future__ import annotations

import asyncio
from typing import Any

from wasmrt import CallbackApprover, ToolRegistry
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalScope
from wasmrt.core.model import ToolOutput
from wasmrt.core.tool_defaults import ToolDefaults
from wasmrt.core.traits import Traits
from wasmrt.runtime.context import ToolContext


class Changer(ToolDefaults):
    """A tool with a preview, and with a digest for remembered answers."""

    name, description, digest = "changer", "Changes.", "d" * 64
    schema: dict[str, Any] = {"type": "object", "properties": {"to": {"type": "string"}}}  # noqa: RUF012
    traits = Traits.of(["write-filesystem"])

    def __init__(self) -> None:
        self.shown: list[str | None] = []

    def preview(self, params: dict[str, Any], context: ToolContext) -> str:
        return f"to {params['to']}"

    def execute(self, params: Any, context: ToolContext) -> ToolOutput:
        self.shown.append(context.shown)
        return ToolOutput(result="done")


def called(answer: ApprovalAnswer, *, times: int = 1) -> list[str | None]:
    tool = Changer()
    registry = ToolRegistry(approver=CallbackApprover(lambda _: answer))
    registry.register(tool)
    for _ in range(times):
        registry.execute("changer", {"to": "a"})
    return tool.shown


def test_a_tool_receives_the_approved_preview() -> None:
    assert called(ApprovalAnswer(approved=True, by="ann")) == ["to a"]


def test_a_remembered_answer_does_not_approve_a_preview() -> None:
    assert called(ApprovalAnswer(approved=True, by="ann", scope=ApprovalScope.ALWAYS), times=2) == ["to a", None]


def test_edited_params_have_no_approved_preview() -> None:
    assert called(ApprovalAnswer(approved=True, by="ann", params={"to": "b"})) == [None]


def test_a_call_without_approval_has_no_preview() -> None:
    tool = Changer()
    tool.traits = Traits.of([])
    registry = ToolRegistry()
    registry.register(tool)
    registry.execute("changer", {"to": "a"})
    assert tool.shown == [None]


def test_an_event_loop_continues_while_a_preview_is_created() -> None:
    tool, went = Changer(), asyncio.Event()

    async def answered() -> None:
        loop = asyncio.get_running_loop()
        asked = asyncio.ensure_future(registry.aexecute("changer", {"to": "a"}))
        tool.preview = lambda params, context: asyncio.run_coroutine_threadsafe(_set(), loop).result(10) or "seen"  # type: ignore[method-assign]
        await asked

    async def _set() -> None:
        went.set()

    registry = ToolRegistry(approver=CallbackApprover(lambda _: True))
    registry.register(tool)
    asyncio.run(answered())
    assert went.is_set() and tool.shown == ["seen"]
