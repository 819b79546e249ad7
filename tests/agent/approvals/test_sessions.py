"""Hosts that share sessions: an answer for the rest of a session, given on one host, applies on the others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.agent.approvals.processes import Killed, Step
from tests.agent.approvals.requests import request
from tests.agent.approvals.test_approvals import CHANGES
from tests.postgres_server import PostgresServer
from tests.tiers import kills
from wasmrt.agent.approvals import (
    ApprovalAnswer,
    ApprovalRequest,
    Approvals,
    ApprovalScope,
    ApprovalStore,
    CallbackApprover,
    ParamsPattern,
    Wide,
    Widening,
    _sessions,
)
from wasmrt.core.postgres import Postgres

YES = ApprovalAnswer(approved=True, scope=ApprovalScope.SESSION, by="bob", note="\ud800 fine")


def host(place: Postgres, answer: ApprovalAnswer = YES) -> Approvals:
    return Approvals(CallbackApprover(lambda _: answer), store=ApprovalStore(place))


def decide(approvals: Approvals, asked: ApprovalRequest) -> ApprovalAnswer:
    return asyncio.run(approvals.decide(asked))


def test_an_answer_for_a_session_applies_on_all_hosts_for_calls_with_the_same_targets(postgres: Postgres) -> None:
    here, there = host(postgres), host(postgres)
    assert decide(here, request()).scope is ApprovalScope.SESSION
    for asked in (request(), request({"path": "notes/b.txt", "text": "hello"})):
        found = there.remembered(asked)
        assert found is not None and found.approved and found.by == "bob" and found.remembered
    for other in (request(trace="t2"), request(trace=""), request({"path": "secret/b.txt", "text": "hello"})):
        assert there.remembered(other) is None


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_it_does_not_apply_to_a_different_request(postgres: Postgres, change: dict[str, Any]) -> None:
    decide(host(postgres), request())
    assert host(postgres).remembered(request()) is not None
    assert host(postgres).remembered(request(**change)) is None


def test_a_pattern_limits_it_on_the_other_host(postgres: Postgres) -> None:
    pattern = ParamsPattern({"path": "notes/a.txt", "text": "hello"}, {"/text": Widening(Wide.ANY, "")})
    decide(host(postgres, replace(YES, pattern=pattern)), request())
    there = host(postgres)
    assert there.remembered(request({"path": "notes/a.txt", "text": "other"})) is not None
    assert there.remembered(request({"path": "notes/b.txt", "text": "hello"})) is None


def test_a_denial_of_one_host_wins_over_an_approval_for_all_sessions(postgres: Postgres) -> None:
    decide(host(postgres, replace(YES, scope=ApprovalScope.ALWAYS)), request())
    denied = request({"path": "notes/a.txt", "text": "other"})
    decide(host(postgres, replace(YES, approved=False)), denied)
    found = host(postgres).remembered(request())
    assert found is not None and not found.approved


def test_a_later_answer_replaces_an_earlier_one(postgres: Postgres) -> None:
    decide(host(postgres, replace(YES, approved=False)), request())
    store = ApprovalStore(postgres)
    assert store.sessions is not None
    first = store.sessions.find(request())
    assert first is not None and not first.approved
    store.sessions.add(replace(first, id="b", approved=True))
    found = host(postgres).remembered(request())
    assert found is not None and found.approved


def test_it_ends_with_the_session_and_after_a_day(postgres: Postgres) -> None:
    here, there = host(postgres), host(postgres)
    decide(here, request())
    there.end_session("t1")
    assert here.remembered(request()) is None
    decide(here, request())
    with postgres.connect("wasmrt_sessions") as db:
        db.execute("UPDATE answer SET made_ms = made_ms - 86400000")
    assert there.remembered(request()) is None


def test_the_oldest_answer_of_a_full_session_is_deleted(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sessions, "MAX_SESSION_ANSWERS", 2)
    here = host(postgres)
    asked = [request({"path": f"{n}/a.txt", "text": "x"}) for n in range(3)]
    decide(here, other := request(trace="t2"))
    for n, each in enumerate(asked):
        decide(here, each)
        with postgres.connect("wasmrt_sessions") as db:
            db.execute(f"UPDATE answer SET made_ms = made_ms - {10 - n}".encode())
    assert [here.remembered(each) is not None for each in (*asked, other)] == [False, True, True, True]


def test_without_the_database_an_approval_applies_once(postgres: Postgres, postgres_server: PostgresServer) -> None:
    here = host(postgres)
    postgres_server.stop()
    try:
        answer = decide(here, request())
    finally:
        postgres_server.start()
    assert (answer.approved, answer.scope) == (True, ApprovalScope.ONCE)
    assert here.remembered(request()) is None


@pytest.mark.ci("kills")
def test_answers_of_killed_hosts_are_stored_as_a_whole_or_not_at_all(postgres: Postgres, tmp_path: Path) -> None:
    killed, done, count = Killed(kills()), tmp_path / "done", 0
    host(postgres)

    def path_of(n: int) -> dict[str, Any]:
        return {"path": f"{n}/a.txt", "text": "x"}

    while killed.left > 0:

        def work(step: Step, first: int = count) -> None:
            here = host(postgres)
            for n in range(first, first + 8):
                step()
                assert decide(here, request(path_of(n))).scope is ApprovalScope.SESSION
                with done.open("a") as file:
                    file.write(f"{n}\n")
                step()

        killed.run(work, work, most=16)
        count += 8
    there = host(postgres)
    answered = {int(line) for line in done.read_text().split()}
    assert answered == set(range(count))
    assert all(there.remembered(request(path_of(n))) is not None for n in answered)
    assert there.remembered(request(path_of(count))) is None
