"""Programs over MCP: a pending call is parked like any other, and the same call continues it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_server.world import FORMS, World
from wasmrt import ToolRegistry, WasmToolRuntime
from wasmrt.agent.approvals import ApprovalAnswer
from wasmrt.interop.mcp.server.tools import _approver

CODE = """
const names = [];
for (const name of ["a", "b"]) names.push(await tools.write_note({name: name + await tools.add({a: 1, b: 1})}));
return names
"""


@pytest.fixture
def world(tmp_path: Path, runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(_approver, "QUEUE_SECONDS", 0.05)
    made = World(tmp_path)
    with_runtime = ToolRegistry(runtime, approvals=made.registry.approvals, receipts=made._write)
    for each in made.registry:
        with_runtime.register(each)
    with_runtime.add_code_mode()
    made.registry = with_runtime
    return made


def _said(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def test_a_program_over_mcp_is_suspended_and_resumed_by_the_same_call(world: World) -> None:
    with world.serve() as line:
        for done in (0, 1):
            waits = line.call("run_code", {"code": CODE})
            (pending,) = world.pending()
            assert waits["isError"] is True and f"wasmrt approvals approve {pending}" in _said(waits)
            assert "same arguments" in _said(waits) and len(world.done) == done
            world.store.answer(pending, ApprovalAnswer(approved=True, by="ann"), user="local")
        ended = line.call("run_code", {"code": CODE})
    assert ended["isError"] is False and ended["structuredContent"]["result"] == ["wrote a2", "wrote b2"]
    assert world.done == ["a2", "b2"] and world.pending() == []


def test_client_form_approves_the_inner_call(world: World) -> None:
    allow = {"approval": {"action": "accept", "content": {"answer": "allow once"}}}
    with world.serve() as line:
        result = line.call("run_code", {"code": CODE}, meta=FORMS)
        for _ in range(2):
            form = result["inputRequests"]["approval"]["params"]
            assert result["resultType"] == "input_required" and "write_note" in form["message"]
            result = line.call(
                "run_code", {"code": CODE}, meta=FORMS, inputResponses=allow, requestState=result["requestState"]
            )
    assert result["structuredContent"]["result"] == ["wrote a2", "wrote b2"]
    assert world.done == ["a2", "b2"]


def test_denial_is_reported_to_the_program(world: World) -> None:
    code = "try { await tools.write_note({name: 'a'}) } catch (e) { return e.code }"
    with world.serve() as line:
        line.call("run_code", {"code": code})
        (pending,) = world.pending()
        world.store.answer(pending, ApprovalAnswer(approved=False, by="ann"), user="local")
        assert line.call("run_code", {"code": code})["structuredContent"]["result"] == "approval-denied"
    assert world.done == []
