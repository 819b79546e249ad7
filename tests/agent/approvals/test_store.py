"""The store: valid answers, the stored data, and access by other processes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.agent.approvals.processes import forking
from tests.agent.approvals.requests import WHY, request
from tests.postgres_server import Place, StorePlace, on_a_file
from wasmrt.agent.approvals import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovalScope,
    ApprovalStore,
    ParamsPattern,
    Remembered,
    State,
    Widening,
    _remembered,
)
from wasmrt.agent.approvals import _store as module
from wasmrt.capabilities import HttpCapability
from wasmrt.core import limits
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ApprovalError
from wasmrt.core.model import Addition, Step

YES = ApprovalAnswer(approved=True, by="bob", note="looks fine")
ALWAYS = ApprovalAnswer(approved=True, scope=ApprovalScope.ALWAYS, by="bob")


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path, store_place: StorePlace) -> Place:
    return store_place(tmp_path / "data" / "approvals.sqlite3")


@pytest.fixture
def store(path: Place, clock: Clock) -> ApprovalStore:
    return ApprovalStore(path, now=clock)


def timed(clock: Clock, params: Any = None, **changed: Any) -> ApprovalRequest:
    now_ms = int(clock() * 1000)
    return request(params, **({"created_ms": now_ms, "expires_ms": now_ms + 60_000} | changed))


def code(function: Callable[..., object], *args: Any, **named: Any) -> str:
    with pytest.raises(ApprovalError) as caught:
        function(*args, **named)
    assert caught.value.message
    return caught.value.code


def test_an_answer_is_used_once(store: ApprovalStore, clock: Clock) -> None:
    asked = timed(clock, preview="--- a\n+++ b\n")
    store.add(asked)
    assert store.take(asked.id) is None
    [waiting] = store.pending()
    assert waiting.request == asked
    store.answer(asked.id, YES, user="alice")
    assert store.pending() == []
    assert store.state(asked.id) is State.ANSWERED
    answer = store.take(asked.id)
    assert answer is not None
    assert (answer.approved, answer.by, answer.note, answer.remembered) == (True, "bob", "looks fine", False)
    assert code(store.take, asked.id) == "answered"


@pytest.mark.parametrize(
    "suggestion", [None, Step("ask"), Addition(HttpCapability.grant_list, '{"host": "a.example"}')]
)
def test_a_request_is_stored_unchanged(store: ApprovalStore, clock: Clock, suggestion: Step | Addition | None) -> None:
    asked = timed(clock, why=WHY._replace(suggestion=suggestion), effects=tuple(sorted(Effect)))
    store.add(asked)
    assert store.pending()[0].request == asked


def test_a_second_answer_has_no_effect(store: ApprovalStore, clock: Clock) -> None:
    asked = timed(clock)
    store.add(asked)
    store.answer(asked.id, ApprovalAnswer(approved=False, by="carol"), user="alice")
    assert code(store.answer, asked.id, ALWAYS, user="alice") == "answered"
    taken = store.take(asked.id)
    assert taken is not None and not taken.approved
    assert code(store.answer, asked.id, ALWAYS, user="alice") == "answered"
    assert store.remembered(asked) is None


def test_an_answer_by_another_user_has_no_effect(store: ApprovalStore, clock: Clock) -> None:
    asked = timed(clock)
    store.add(asked)
    assert code(store.answer, asked.id, ALWAYS, user="mallory") == "other-user"
    assert store.state(asked.id) is State.PENDING
    assert store.remembered(asked) is None


def test_an_answer_to_a_withdrawn_request_has_no_effect(store: ApprovalStore, clock: Clock) -> None:
    asked = timed(clock)
    store.add(asked)
    store.withdraw(asked.id)
    assert code(store.answer, asked.id, ALWAYS, user="alice") == "withdrawn"
    assert store.remembered(asked) is None


def test_withdrawing_removes_a_given_answer(store: ApprovalStore, clock: Clock) -> None:
    asked = timed(clock)
    store.add(asked)
    store.answer(asked.id, YES, user="alice")
    store.withdraw(asked.id)
    assert code(store.take, asked.id) == "withdrawn"


@pytest.mark.parametrize("version", [{"digest": "d2", "grant": "g1"}, {"digest": "d1", "grant": "g2"}])
def test_an_answer_for_another_version_has_no_effect(
    store: ApprovalStore, clock: Clock, version: dict[str, str]
) -> None:
    asked, answered, new, other = (timed(clock, **more) for more in ({}, {}, version, {"tool": "other"}))
    for each in (asked, answered, new, other):
        store.add(each)
    store.answer(answered.id, YES, user="alice")
    store.tool_changed("write_file", **version)
    assert code(store.answer, asked.id, ALWAYS, user="alice") == "outdated"
    assert code(store.take, answered.id) == "outdated"
    assert store.remembered(asked) is None
    assert {q.id for q in store.pending()} == {new.id, other.id}


def test_an_answer_to_an_expired_request_has_no_effect(store: ApprovalStore, clock: Clock) -> None:
    asked, answered = timed(clock), timed(clock)
    store.add(asked)
    store.add(answered)
    store.answer(answered.id, YES, user="alice")
    clock.seconds += 61
    assert store.pending() == []
    found = store.get(asked.id)
    assert found is not None and (found.state, found.params) == (State.EXPIRED, None)
    assert code(store.answer, asked.id, ALWAYS, user="alice") == "expired"
    assert code(store.take, answered.id) == "expired"
    clock.seconds -= 61  # setting the clock back does not revive a request
    assert code(store.answer, asked.id, ALWAYS, user="alice") == "expired"


def test_an_answer_to_an_unknown_request_is_an_error(store: ApprovalStore) -> None:
    assert code(store.answer, "nnnnn-nnnnn", YES, user="alice") == "unknown"
    assert code(store.take, "nnnnn-nnnnn") == "unknown"
    assert store.get("nnnnn-nnnnn") is None
    assert store.state("nnnnn-nnnnn") is None


def test_a_restarted_caller_finds_its_request(store: ApprovalStore, clock: Clock) -> None:
    asked = timed(clock)
    store.add(asked)
    store.add(asked)
    store.answer(asked.id, YES, user="alice")
    store.add(asked)
    taken = store.take(asked.id)
    assert taken is not None and taken.approved
    assert code(store.add, asked) == "answered"


def test_an_id_identifies_one_request(store: ApprovalStore, clock: Clock) -> None:
    asked = timed(clock)
    store.add(asked)
    assert code(store.add, timed(clock, {"path": "other"}, id=asked.id)) == "id-taken"


def test_an_always_answer_applies_in_every_process(store: ApprovalStore, clock: Clock, path: Place) -> None:
    other = ApprovalStore(path, now=clock)
    asked = timed(clock)
    assert store.remembered(asked) is other.remembered(asked) is None
    store.add(asked)
    pattern = ParamsPattern(asked.params).widen("text", Widening.parse("any"))
    store.answer(asked.id, ApprovalAnswer(approved=True, scope=ApprovalScope.ALWAYS, pattern=pattern), user="alice")
    wider = timed(clock, {"path": "notes/a.txt", "text": "else"})
    for each in (store, other, ApprovalStore(path)):
        found = each.remembered(wider)
        assert found is not None and found.approved and found.answer.remembered
        assert each.remembered(timed(clock, {"path": "b", "text": "else"})) is None
    [kept] = store.answers()
    assert other.forget(kept.id)
    assert store.remembered(wider) is None
    assert not other.forget(kept.id)


def test_a_later_remembered_answer_replaces_an_earlier_one(store: ApprovalStore, clock: Clock) -> None:
    for approved in (True, False, True):
        asked = timed(clock)
        store.add(asked)
        store.answer(asked.id, ApprovalAnswer(approved=approved, scope=ApprovalScope.ALWAYS), user="alice")
        found = store.remembered(asked)
        assert found is not None and found.approved is approved
    assert len(store.answers()) == 1


def test_all_answers_of_one_user_are_forgotten(store: ApprovalStore, clock: Clock) -> None:
    assert store.forget_all() == 0
    for user in ("alice", "alice", "bob"):
        asked = timed(clock, {"n": user}, user=user, tool=f"tool{len(store.answers())}")
        store.add(asked)
        store.answer(asked.id, ALWAYS, user=user)
    assert store.forget_all("alice") == 2
    assert [a.user for a in store.answers()] == ["bob"]
    assert store.forget_all() == 1


@pytest.mark.parametrize(
    ("without", "scope"),
    [("digest", ApprovalScope.ALWAYS), ("digest", ApprovalScope.SESSION), ("trace", ApprovalScope.SESSION)],
)
def test_an_answer_that_cannot_be_bound_is_rejected(
    store: ApprovalStore, clock: Clock, without: str, scope: ApprovalScope
) -> None:
    asked = timed(clock, **{without: ""})
    store.add(asked)
    assert code(store.answer, asked.id, ApprovalAnswer(approved=True, scope=scope), user="alice") == "not-memorable"
    store.answer(asked.id, YES, user="alice")


@on_a_file
def test_params_are_stored_only_while_a_request_is_pending(store: ApprovalStore, clock: Clock, path: Path) -> None:
    word = b"otters-" * 2000  # several pages
    params = {"text": word.decode()}
    ends: list[Callable[[ApprovalRequest], object]] = [
        lambda r: store.answer(r.id, YES, user="alice"),
        lambda r: store.withdraw(r.id),
        lambda r: store.tool_changed("write_file", digest="d2", grant="g1"),
        lambda r: (setattr(clock, "seconds", clock.seconds + 61), store.withdraw("another")),
    ]
    for end in ends:
        store.version()  # a waiting process keeps the file and its write-ahead log open
        asked = timed(clock, params, preview=word.decode())
        store.add(asked)
        assert any(b"otters" in file.read_bytes() for file in path.parent.iterdir())
        end(asked)
        assert not any(b"otters" in file.read_bytes() for file in path.parent.iterdir())
        found = store.get(asked.id)
        assert found is not None and found.params is None and found.preview is None


@on_a_file
def test_edited_params_are_stored_until_they_are_used(store: ApprovalStore, clock: Clock, path: Path) -> None:
    asked = timed(clock)
    store.add(asked)
    store.answer(asked.id, ApprovalAnswer(approved=True, params={"text": "otters"}), user="alice")
    taken = store.take(asked.id)
    assert taken is not None and taken.params == {"text": "otters"}
    assert not any(b"otters" in file.read_bytes() for file in path.parent.iterdir())


def test_decided_requests_retain_approver_time_and_params_digest(store: ApprovalStore, clock: Clock) -> None:
    asked = timed(clock)
    store.add(asked)
    clock.seconds += 5
    store.answer(asked.id, YES, user="alice")
    [found] = store.decided()
    assert (found.by, found.scope, found.approved) == ("bob", ApprovalScope.ONCE, True)
    assert found.decided_ms == int(clock() * 1000)
    assert len(found.params_digest) == 64
    assert found.as_dict()["state"] == "answered"


def test_the_size_of_the_store_is_bounded(store: ApprovalStore, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code(store.add, timed(clock, {"x": "x" * limits.MAX_APPROVAL_BYTES})) == "too-large"
    monkeypatch.setattr(module, "MAX_PENDING_APPROVALS", 3)
    monkeypatch.setattr(_remembered, "MAX_REMEMBERED_ANSWERS", 2)
    monkeypatch.setattr(module, "MAX_DECIDED_APPROVALS", 2)
    asked = [timed(clock, created_ms=n) for n in range(3)]
    for each in asked:
        store.add(each)
    assert code(store.add, timed(clock)) == "queue-full"
    store.answer(asked[0].id, ALWAYS, user="alice")
    assert code(store.add, timed(clock)) == "queue-full"  # the caller has not used the answer yet
    for n, each in enumerate(asked[1:]):
        store.answer(each.id, ApprovalAnswer(approved=True, note="n" * 5000, by="b" * 5000), user="alice")
        assert n or store.take(asked[0].id)
    for each in asked[1:]:
        store.take(each.id)
    store.add(timed(clock))
    assert len(store.decided()) == 2
    assert all(len(q.note) == limits.MAX_ANSWER_NOTE_BYTES == len(q.by) for q in store.decided())
    more = [timed(clock, {"n": n}) for n in range(2)]
    store.add(more[0])
    store.add(more[1])
    store.answer(more[0].id, ALWAYS, user="alice")
    assert code(store.answer, more[1].id, ALWAYS, user="alice") == "too-many-answers"
    store.answer(more[1].id, YES, user="alice")  # the rejected answer was not stored


def test_the_size_of_pending_requests_is_bounded(
    store: ApprovalStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PENDING_APPROVAL_BYTES", 1000)
    store.add(timed(clock, {"x": "x" * 600}))
    assert code(store.add, timed(clock, {"x": "x" * 600})) == "queue-full"


@on_a_file
def test_the_file_is_private_and_a_readable_one_is_rejected(store: ApprovalStore, clock: Clock, path: Path) -> None:
    asked = timed(clock)
    store.add(asked)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {f.name: f.stat().st_mode & 0o777 for f in path.parent.iterdir()}[path.name] == 0o600
    assert all(f.stat().st_mode & 0o077 == 0 for f in path.parent.iterdir())
    path.chmod(0o620)
    assert code(store.remembered, asked) == "approval-store"
    assert code(store.answer, asked.id, YES, user="alice") == "approval-store"
    assert code(ApprovalStore(path).pending) == "approval-store"


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "text", "version"])
@on_a_file
def test_a_file_that_is_not_a_store_is_rejected(
    store: ApprovalStore, clock: Clock, path: Path, kind: str, tmp_path: Path
) -> None:
    path.parent.mkdir(mode=0o700)
    if kind == "link":
        real = ApprovalStore(tmp_path / "real" / "x.sqlite3")
        real.forget_all()
        real.remember(Remembered.of(timed(clock), ALWAYS, now_ms=1))
        path.symlink_to(tmp_path / "real" / "x.sqlite3")
    elif kind == "folder":
        path.mkdir(mode=0o700)
    elif kind == "pipe":
        os.mkfifo(path, 0o600)
    else:
        path.touch(mode=0o600)
        if kind == "text":
            path.write_text("not a database, " * 100)
        else:
            with closing(sqlite3.connect(path)) as db:
                db.execute("PRAGMA user_version=99")
    assert code(store.pending) == "approval-store"
    assert code(store.remembered, timed(clock)) == "approval-store"
    assert code(store.add, timed(clock)) == "approval-store"


@pytest.mark.parametrize(("table", "column"), [("request", "effects"), ("request", "why"), ("answer", "pattern")])
@on_a_file
def test_a_row_of_another_version_raises_an_approval_error(
    store: ApprovalStore, clock: Clock, path: Path, table: str, column: str
) -> None:
    first, asked = timed(clock, {"n": 1}), timed(clock)
    store.add(first)
    store.answer(first.id, ALWAYS, user="alice")
    store.add(asked)
    for value in ('["teleport"]', "7", "no json"):
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"UPDATE {table} SET {column} = ?", (value,))
            db.execute("UPDATE counter SET value = value + 1")
            db.commit()
        if table == "answer":
            assert code(store.answers) == code(store.remembered, asked) == "approval-store"
        else:
            assert code(store.pending) == code(store.get, asked.id) == "approval-store"
            assert code(store.answer, asked.id, YES, user="alice") == "approval-store"


@on_a_file
def test_a_removed_or_replaced_store_remembers_nothing(store: ApprovalStore, clock: Clock, path: Path) -> None:
    asked = timed(clock)
    store.add(asked)
    store.answer(asked.id, ALWAYS, user="alice")
    assert store.remembered(asked) is not None
    for file in list(path.parent.iterdir()):
        file.unlink()
    assert store.remembered(asked) is None
    store.add(timed(clock))
    assert store.remembered(asked) is None


def test_a_forked_process_opens_its_own_connection(store: ApprovalStore, clock: Clock) -> None:
    asked = timed(clock)
    store.add(asked)
    store.answer(asked.id, ALWAYS, user="alice")
    assert store.remembered(asked) is not None
    with forking():
        child = os.fork()
    if child == 0:
        code = 1
        try:
            first = store.remembered(asked) is not None
            store.forget_all()
            code = 0 if first and store.remembered(asked) is None else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.remembered(asked) is None


@on_a_file
def test_concurrent_creation_results_in_one_file(path: Path, clock: Clock) -> None:
    stores = [ApprovalStore(path, now=clock) for _ in range(4)]
    asked = [timed(clock) for _ in stores]
    for each, one in zip(stores, asked, strict=True):
        each._requests.database._create()
        each.add(one)
    assert {q.id for q in stores[0].pending()} == {a.id for a in asked}
    assert [f.name for f in path.parent.iterdir() if f.name.startswith(".new")] == []
    stores[0].close()
