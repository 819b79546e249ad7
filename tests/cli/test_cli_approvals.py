"""Tests of `wasmrt approvals` with requests from another process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.agent.approvals.requests import WHY, request
from wasmrt.agent.approvals import (
    ApprovalAnswer,
    ApprovalRequest,
    Approvals,
    ApprovalScope,
    ApprovalStore,
    QueueApprover,
    current_user_name,
)

Run = Callable[..., Result]


@pytest.fixture
def store(home: Path) -> ApprovalStore:
    return ApprovalStore(home / "data" / "approvals.sqlite3")


@pytest.fixture
def asked(store: ApprovalStore) -> ApprovalRequest:
    made = request(user="local", preview="--- a\n+++ b\n-old\n+new")
    store.add(made)
    return made


def test_listing_approvals_does_not_create_an_installation(wasmrt: Run, absent_home: Path) -> None:
    assert "no pending requests" in wasmrt("approvals", "list").stderr
    listed = json.loads(wasmrt("approvals", "list", "--json").stdout)
    assert listed == {"pending": [], "access": [], "programs": [], "denied_access": [], "remembered": []}
    assert not absent_home.exists()


def test_a_request_is_listed_shown_and_approved(wasmrt: Run, store: ApprovalStore, asked: ApprovalRequest) -> None:
    assert asked.id in wasmrt("approvals", "list").stdout
    [listed] = json.loads(wasmrt("approvals", "list", "--json").stdout)["pending"]
    assert (listed["id"], listed["params"], listed["effects"]) == (asked.id, asked.params, ["write-filesystem"])
    shown = wasmrt("approvals", "show", asked.id.upper()).stdout
    assert "reason: write_file: write_file writes" in shown and "    +new\n" in shown
    assert json.loads(wasmrt("approvals", "show", asked.id, "--json").stdout)["state"] == "pending"
    approved = json.loads(wasmrt("approvals", "approve", asked.id, "--json").stdout)
    assert approved == {
        "id": asked.id,
        "tool": "write_file",
        "approved": True,
        "scope": "once",
        "by": current_user_name(),
    }
    ended = wasmrt("approvals", "list", "--decided").stdout
    assert "approved (once)" in ended and current_user_name() in ended
    assert json.loads(wasmrt("approvals", "list", "--decided", "--json").stdout)["decided"][0]["id"] == asked.id
    assert "approved (once)" in wasmrt("approvals", "show", asked.id).stdout
    assert store.take(asked.id) == ApprovalAnswer(approved=True, by=current_user_name())


def test_a_request_is_denied_with_a_reason(wasmrt: Run, store: ApprovalStore, asked: ApprovalRequest) -> None:
    assert (
        f"denied {asked.id}: write_file, this once"
        in wasmrt("approvals", "deny", asked.id, "--note", "not today").stderr
    )
    taken = store.take(asked.id)
    assert taken is not None and (taken.approved, taken.note) == (False, "not today")


def test_answer_for_always_is_widened_remembered_and_forgotten(
    wasmrt: Run, store: ApprovalStore, asked: ApprovalRequest
) -> None:
    wide = ("--any", "text", "--like", "path=notes/")
    told = wasmrt("approvals", "approve", asked.id, "--scope", "always", *wide).stderr
    assert "write_file, from now on (path: below notes, text: anything, other parameters unchanged)" in told
    other = request({"path": "notes/x/y", "text": "bye"}, user="local")
    assert store.remembered(other) is not None
    [kept] = json.loads(wasmrt("approvals", "list", "--json").stdout)["remembered"]
    listed = wasmrt("approvals", "list").stdout
    assert "path: below notes, text: anything, other parameters unchanged" in listed
    assert '"path": "notes/a.txt"' in wasmrt("approvals", "show", kept["id"]).stdout
    assert json.loads(wasmrt("approvals", "show", kept["id"], "--json").stdout)["pattern"]["params"] == asked.params
    assert "forgot 1 answer" in wasmrt("approvals", "forget", kept["id"]).stderr
    assert store.remembered(other) is None
    assert json.loads(wasmrt("approvals", "forget", "--all", "--json").stdout) == {"forgotten": 0}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("approve", "nnnnn-nnnnn"), 1, "no request has the ID"),
        (("show", "nnnnn-nnnnn"), 1, "there is no request"),
        (("forget", "nnnnn-nnnnn"), 1, "there is no request or answer"),
        (("forget",), 2, "expected an ID"),
        (("forget", "ID", "--all"), 2, "expected an ID"),
        (("approve", "ID", "--user", "mallory"), 1, "belongs to another user"),
        (("deny", "ID", "--user", "mallory"), 1, "belongs to another user"),
        (("approve", "ID", "--any", "text"), 2, "--any and --like require"),
        (("approve", "ID", "--scope", "always", "--any", "missing"), 2, "no parameter"),
        (("approve", "ID", "--scope", "always", "--like", "path"), 2, "has no pattern"),
        (("approve", "ID", "--scope", "always", "--like", "path=x"), 2, "invalid pattern"),
        (("approve", "ID", "--scope", "always", "--like", "path=other/"), 2, "does not match below other"),
        (("approve", "ID", "--scope", "forever"), 2, "forever"),
    ],
)
def test_invalid_answer_changes_nothing_and_suggests_a_fix(
    wasmrt: Run, store: ApprovalStore, asked: ApprovalRequest, arguments: tuple[str, ...], code: int, said: str
) -> None:
    told = wasmrt("approvals", *(asked.id if a == "ID" else a for a in arguments), code=code)
    assert said in told.stderr
    assert "hint: " in told.stderr
    assert [q.id for q in store.pending()] == [asked.id]
    assert store.answers() == []
    assert told.stdout == ""


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda s, r: s.withdraw(r.id), "its caller no longer waits"),
        (lambda s, r: s.answer(r.id, ApprovalAnswer(approved=False), user="local"), "was already answered"),
        (lambda s, r: s.tool_changed(r.tool, digest="d2", grant="g1"), "its tool has been updated"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--scope", "always", "--any", "text")])
def test_late_answer_is_an_error(
    wasmrt: Run,
    store: ApprovalStore,
    asked: ApprovalRequest,
    end: Callable[[ApprovalStore, ApprovalRequest], None],
    said: str,
    more: tuple[str, ...],
) -> None:
    end(store, asked)
    before = store.get(asked.id)
    told = wasmrt("approvals", "approve", asked.id, *more, "--json", code=1)
    error = json.loads(told.stderr)
    assert said in error["message"] and "nothing was changed" in error["message"]
    assert store.get(asked.id) == before
    assert store.answers() == []


def test_waiting_agent_gets_the_answer_of_the_command(wasmrt: Run, store: ApprovalStore) -> None:
    approvals = Approvals(QueueApprover(store))
    first, second = request(user="local"), request({"path": "notes/b"}, user="local")
    got: list[ApprovalAnswer] = []

    async def agent() -> None:
        got.extend(await asyncio.gather(approvals.decide(first), approvals.decide(second)))

    thread = threading.Thread(target=lambda: asyncio.run(agent()))
    thread.start()
    while len(store.pending()) < 2:
        pass
    wasmrt("approvals", "approve", first.id, "--scope", "session")
    thread.join(30)
    assert [(a.approved, a.scope) for a in got] == [(True, ApprovalScope.SESSION)] * 2


def test_text_of_tools_is_escaped_for_the_terminal(wasmrt: Run, store: ApprovalStore) -> None:
    nasty = "\x1b[2J\r\napproved\u202e"
    asked = request({nasty: nasty}, user=nasty, tool=nasty, risk=nasty, preview=nasty, why=WHY._replace(rule=nasty))
    store.add(asked)
    for arguments in (("list",), ("show", asked.id), ("list", "--json")):
        shown = wasmrt("approvals", *arguments).stdout
        assert not set(shown) & set("\x1b\r\u202e")
        assert not any(line.startswith("approved") for line in shown.splitlines())
