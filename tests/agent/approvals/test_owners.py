"""Requests of clients belong to the process that serves the client, and end with it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from tests.agent.approvals.processes import forking
from tests.agent.approvals.requests import request
from tests.postgres_server import Place, StorePlace
from wasmrt.agent.approvals import (
    ApprovalAnswer,
    ApprovalRequest,
    Approvals,
    ApprovalStore,
    Approver,
    CallbackApprover,
    DenyApprover,
    State,
    _owners,
    current_user_name,
    new_request_id,
)
from wasmrt.core.errors import ApprovalError


def lasting(**changed: object) -> ApprovalRequest:
    now_ms = int(time.time() * 1000)
    return request(**({"created_ms": now_ms, "expires_ms": now_ms + 60_000} | changed))


@pytest.fixture
def path(tmp_path: Path, store_place: StorePlace) -> Place:
    return store_place(tmp_path / "a.sqlite3")


def add_and_be_killed(path: Place, asked: ApprovalRequest) -> None:
    """Add a request in a process that is killed afterwards. The process remains a zombie for a moment."""
    with forking():
        child = os.fork()
    if child == 0:
        ApprovalStore(path).add(asked)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert _owners.has_ended(f"{_owners._get_pid_scope()} {child} {_owners._read_status(child)[19]}"), "it is a zombie"
    os.waitpid(child, 0)


def test_a_request_of_a_client_ends_with_its_process(path: Place) -> None:
    store, asked = ApprovalStore(path), lasting(client="editor 1")
    add_and_be_killed(path, asked)
    with pytest.raises(ApprovalError) as caught:
        store.answer(asked.id, ApprovalAnswer(approved=True, by="ann"), user=asked.user)
    assert caught.value.code == "withdrawn"
    assert store.pending() == []
    ended = store.get(asked.id)
    assert ended is not None and ended.state is State.WITHDRAWN and "has ended" in ended.note
    assert ended.params is None, "private content is removed"


@pytest.mark.parametrize("read", ["get", "pending"])
def test_each_reader_withdraws_the_requests_of_ended_processes(path: Place, read: str) -> None:
    store, asked = ApprovalStore(path), lasting(client="editor 1")
    add_and_be_killed(path, asked)
    if read == "pending":
        assert store.pending() == []
    found = store.get(asked.id)
    assert found is not None and found.state is State.WITHDRAWN


def test_other_requests_outlive_the_process_that_made_them(path: Place) -> None:
    store, asked, own = ApprovalStore(path), lasting(), lasting(client="editor 1")
    store.add(own)
    add_and_be_killed(path, asked)
    assert {each.id for each in store.pending()} == {asked.id, own.id}


def test_a_later_process_with_the_same_pid_is_not_the_owner() -> None:
    scope, pid, start = _owners.this_process().split(" ")
    assert not _owners.has_ended(f"{scope} {pid} {start}")
    assert _owners.has_ended(f"{scope} {pid} {int(start) + 1}")


@pytest.mark.parametrize("owner", ["", "x", "elsewhere/1 1 1", "a b c d"])
def test_a_process_that_cannot_be_seen_is_not_treated_as_ended(owner: str) -> None:
    assert not _owners.has_ended(owner)


# -- the user who answered ---------------------------------------------------------------------------------------------


class Silent:
    """An approver that gives no name."""

    async def ask(self, asked: ApprovalRequest) -> ApprovalAnswer:
        """Approve the request."""
        return ApprovalAnswer(approved=True)


@pytest.mark.parametrize(
    "approver",
    [Silent(), CallbackApprover(lambda _: True), CallbackApprover(lambda _: ApprovalAnswer(approved=True))],
)
def test_an_approval_without_a_name_is_recorded_for_the_user_of_the_process(approver: Approver) -> None:
    answer = asyncio.run(Approvals(approver).decide(lasting()))
    assert (answer.approved, answer.by) == (True, current_user_name())


def test_an_answer_in_the_store_has_the_name_that_was_given_or_else_the_users(path: Place) -> None:
    store = ApprovalStore(path)
    for given, expected in (("ann", "ann"), ("", current_user_name())):
        asked = lasting(id=new_request_id())
        store.add(asked)
        store.answer(asked.id, ApprovalAnswer(approved=True, by=given), user=asked.user)
        taken = store.take(asked.id)
        assert taken is not None and taken.by == expected


def test_a_request_without_an_answer_has_no_approver() -> None:
    answer = asyncio.run(Approvals(DenyApprover()).decide(lasting()))
    assert (answer.approved, answer.by) == (False, "")
