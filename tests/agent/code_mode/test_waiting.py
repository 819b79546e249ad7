"""Suspended programs on the command line: listed with the requests, and dropped."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.agent.approvals.requests import request
from tests.agent.code_mode.conftest import Desk
from tests.postgres_server import on_a_file
from wasmrt import ToolRegistry, find_places
from wasmrt.agent.approvals import ApprovalStore
from wasmrt.cli import cli
from wasmrt.core.errors import RunSuspendedError
from wasmrt.runtime.stores import store_place

PROGRAM = "const a = await tools.add({a: 1, b: 1}); return await tools.write_note({text: String(a)})"
Approvals = Callable[..., Result]


@pytest.fixture
def approvals(home: Path) -> Approvals:
    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, ["approvals", *arguments], prog_name="wasmrt")
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def waiting(registry: ToolRegistry, approvals: Approvals) -> dict[str, Any]:
    """Return the list entry of a suspended program."""
    with pytest.raises(RunSuspendedError) as caught:
        registry.execute("run_code", {"code": PROGRAM}, user="ann", trace="job-1")
    (program,) = json.loads(approvals("list", "--json").stdout)["programs"]
    assert program["id"] == caught.value.call_id
    return dict(program)


def test_suspended_program_is_listed_with_its_pending_tool(waiting: dict[str, Any], approvals: Approvals) -> None:
    known = {name: waiting[name] for name in ("user", "trace", "tool", "calls", "request")}
    assert known == {"user": "ann", "trace": "job-1", "tool": "write_note", "calls": 1, "request": None}
    header, row = approvals("list").stdout.splitlines()
    assert header.split()[:3] == ["PROGRAM", "NEEDS", "USER"]
    assert row.split()[:4] == [waiting["id"], "write_note", "ann", "-"]


def test_suspended_program_is_listed_with_its_request(waiting: dict[str, Any], approvals: Approvals) -> None:
    store = ApprovalStore(store_place(find_places().approvals))
    store.add(request(id="aaaaa-aaaaa", user="bob", trace="job-1", tool="write_note"))
    asked = request(id="bbbbb-bbbbb", user="ann", trace="job-1", tool="write_note")
    store.add(asked)
    (program,) = json.loads(approvals("list", "--json").stdout)["programs"]
    assert program["request"] == asked.id
    assert f"{waiting['id']}  write_note  ann   {asked.id}" in approvals("list").stdout


def test_dropped_program_starts_from_its_beginning(
    waiting: dict[str, Any], approvals: Approvals, registry: ToolRegistry, desk: Desk
) -> None:
    assert json.loads(approvals("forget", waiting["id"].upper(), "--json").stdout) == {"dropped": 1}
    assert "no pending requests" in approvals("list").stderr
    approvals("forget", waiting["id"], code=1)
    desk.answers = [True]
    registry.execute("run_code", {"code": PROGRAM}, user="ann", trace="job-1")
    assert desk.done == ["add 1 1", "add 1 1", "write 2"]
    assert "no pending requests" in approvals("list").stderr


@on_a_file
def test_active_program_cannot_be_dropped(waiting: dict[str, Any], approvals: Approvals, home: Path) -> None:
    (file,) = find_places().code_runs.iterdir()
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused = approvals("forget", waiting["id"], "--json", code=1)
    assert json.loads(refused.stderr)["code"] == "run-under-way" and file.exists()


@on_a_file
@pytest.mark.parametrize("damage", [b"", b"[1]\n", b"{\n", b'{"owner": ["a"]}\n', b'{"version": 2}\n'])
def test_unreadable_run_is_counted_listed_and_can_be_dropped(
    waiting: dict[str, Any], approvals: Approvals, damage: bytes
) -> None:
    (file,) = find_places().code_runs.iterdir()
    file.write_bytes(damage)
    (program,) = json.loads(approvals("list", "--json").stdout)["programs"]
    assert (program["id"], program["user"], program["calls"]) == (file.stem, "", 0)
    assert f"{file.stem}  cannot be read" in approvals("list").stdout
    approvals("forget", waiting["id"], code=1)
    approvals("forget", file.stem)
    assert not file.exists() and "no pending requests" in approvals("list").stderr
