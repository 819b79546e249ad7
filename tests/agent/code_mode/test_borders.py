"""Programs together with shell sessions, approvers and agent frameworks."""

from __future__ import annotations

from pathlib import Path

import pytest
from wasmrt.adapters._questions import FrameworkApprover

from tests.agent.code_mode.conftest import Desk
from tests.postgres_server import on_a_file
from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt import CallbackApprover, ToolRegistry, WasmToolRuntime
from wasmrt.agent.approvals import ApprovalAnswer, Approver, DenyApprover
from wasmrt.agent.builtin.shell import ShellSettings, ShellTool
from wasmrt.agent.policy import Permission, ToolPolicy, ToolRule
from wasmrt.core.errors import RunReplayError, RunSuspendedError

IN_BUILD = """
await tools.shell({command: "cd build; NAME=made"});
await tools.write_note({text: "x"});
await tools.shell({command: "touch $NAME.txt"});
return (await tools.shell({command: "touch more.txt"})).directory
"""

pytestmark = on_a_file


def _made(
    runtime: WasmToolRuntime, desk: Desk, approver: Approver | None = None, folder: Path | None = None
) -> ToolRegistry:
    rules = (ToolRule(tool="shell", permission=Permission.ALLOW),)
    made = ToolRegistry(
        runtime, approver=approver or CallbackApprover(desk.ask), receipts=desk.receipts.append,
        policy=ToolPolicy(rules=rules),
    )  # fmt: skip
    for each in desk.tools:
        made.register(each)
    if folder is not None:
        made.register(ShellTool(folder, ShellSettings(session=True)), builtin=True)
    made.add_code_mode()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "build").mkdir(parents=True)
    return folder


@needs_seccomp
@needs_landlock
@pytest.mark.parametrize("lost", ["with its process", "by another call"])
def test_run_does_not_continue_in_a_changed_shell_session(
    runtime: WasmToolRuntime, desk: Desk, folder: Path, lost: str
) -> None:
    tools = _made(runtime, desk, folder=folder)
    with pytest.raises(RunSuspendedError):
        tools.execute("run_code", {"code": IN_BUILD}, trace="job-1")
    if lost == "with its process":
        tools = _made(runtime, desk, folder=folder)
    else:
        tools.execute("shell", {"command": "cd .."}, trace="job-1")
    desk.answers = [True]
    with pytest.raises(RunReplayError, match="session of shell has changed") as caught:
        tools.execute("run_code", {"code": IN_BUILD}, trace="job-1")
    assert caught.value.code == "run-session-changed" and list(folder.rglob("*.txt")) == []
    assert desk.receipts[-2].tool == "shell" and desk.receipts[-2].outcome == "run-session-changed"


@needs_seccomp
@needs_landlock
def test_run_continues_in_its_unchanged_shell_session(runtime: WasmToolRuntime, desk: Desk, folder: Path) -> None:
    tools = _made(runtime, desk, folder=folder)
    with pytest.raises(RunSuspendedError):
        tools.execute("run_code", {"code": IN_BUILD}, trace="job-1")
    desk.answers = [True]
    assert tools.execute("run_code", {"code": IN_BUILD}, trace="job-1").result == {"result": "build"}
    assert sorted(each.name for each in (folder / "build").iterdir()) == ["made.txt", "more.txt"]


def test_calls_in_a_program_are_denied_without_an_approver(runtime: WasmToolRuntime, desk: Desk, home: Path) -> None:
    tools = _made(runtime, desk, DenyApprover())
    code = "try { await tools.write_note({text: 'a'}) } catch (e) { return [e.code, e.message] }"
    told = tools.execute("run_code", {"code": code}).result["result"]
    assert told == ["approval-denied", "the call requires approval, and it was not approved; continue without it"]
    assert desk.done == [] and list((home / "data/code-runs").iterdir()) == []


def test_framework_approval_covers_only_the_outer_call(runtime: WasmToolRuntime, desk: Desk) -> None:
    given = FrameworkApprover(lambda question: True, ApprovalAnswer(approved=True, by="the framework"), "c1")
    desk.answers = [True]
    call = {"id": "c1", "name": "run_code", "arguments": {"code": "return await tools.write_note({text: 'a'})"}}
    answer = _made(runtime, desk).answer(call, approver=given)
    assert answer.error is None and desk.done == ["write a"]
    assert [(each.tool, each.trace) for each in desk.asked] == [("write_note", "")]
    (inner,) = (each for each in desk.receipts if each.tool == "write_note")
    assert inner.approval is not None and inner.approval.by == "ann"
