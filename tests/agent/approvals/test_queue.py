"""The queue: a caller waits in one process or thread, and an approver answers in another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.approvals.requests import request
from tests.postgres_server import Place, StorePlace, on_a_file
from wasmrt.agent.approvals import (
    ApprovalAnswer,
    ApprovalRequest,
    Approvals,
    ApprovalScope,
    ApprovalStore,
    ParamsPattern,
    ParkedRequests,
    QueueApprover,
    State,
    Widening,
)
from wasmrt.core.errors import ApprovalError


@pytest.fixture
def path(tmp_path: Path, store_place: StorePlace) -> Place:
    return store_place(tmp_path / "approvals.sqlite3")


def waits(store: ApprovalStore, count: int = 1) -> Callable[[], bool]:
    return lambda: len(store.pending()) == count


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def answers(path: Place, asked: ApprovalRequest, answer: ApprovalAnswer) -> ApprovalAnswer:
    """Answer a request from another thread."""
    other = ApprovalStore(path)

    async def scene() -> ApprovalAnswer:
        waiting = asyncio.ensure_future(Approvals(QueueApprover(ApprovalStore(path))).decide(asked))
        await until(waits(other))
        await asyncio.to_thread(other.answer, asked.id, answer, user="alice")
        return await waiting

    return asyncio.run(scene())


def test_another_process_answers(path: Place) -> None:
    answer = answers(path, request(), ApprovalAnswer(approved=True, by="bob", params={"path": "b"}))
    assert (answer.approved, answer.by, answer.params) == (True, "bob", {"path": "b"})
    assert not answers(path, request(), ApprovalAnswer(approved=False)).approved


def test_an_always_answer_is_stored_once_with_its_pattern(path: Place) -> None:
    asked = request()
    pattern = ParamsPattern(asked.params).widen("text", Widening.parse("any"))
    answers(path, asked, ApprovalAnswer(approved=True, scope=ApprovalScope.ALWAYS, pattern=pattern))
    store = ApprovalStore(path)
    [kept] = store.answers()
    assert kept.pattern == pattern
    approvals = Approvals(QueueApprover(store))
    assert approvals.remembered(request({"path": "notes/a.txt", "text": "else"})) is not None
    store.forget(kept.id)
    assert approvals.remembered(asked) is None


def test_a_session_answer_applies_only_to_its_session(path: Place) -> None:
    async def scene() -> None:
        store = ApprovalStore(path)
        approvals = Approvals(QueueApprover(store))
        first, second = request(), request({"path": "notes/b"})
        waiting = [asyncio.ensure_future(approvals.decide(r)) for r in (first, second)]
        await until(waits(store, 2))
        store.answer(first.id, ApprovalAnswer(approved=True, scope=ApprovalScope.SESSION), user="alice")
        assert [a.approved for a in await asyncio.gather(*waiting)] == [True, True]
        assert store.state(second.id) is State.WITHDRAWN
        assert store.answers() == []
        assert approvals.remembered(request({"path": "notes/c"})) is not None
        assert approvals.remembered(request(trace="t2")) is None

    asyncio.run(scene())


def test_many_requests_are_pending_concurrently(path: Place) -> None:
    async def scene() -> None:
        store = ApprovalStore(path)
        approvals = Approvals(QueueApprover(ApprovalStore(path)))
        asked = [request({"n": n}) for n in range(20)]
        waiting = [asyncio.ensure_future(approvals.decide(r)) for r in asked]
        await until(waits(store, 20))
        for n, each in reversed(list(enumerate(asked))):
            store.answer(each.id, ApprovalAnswer(approved=n % 3 == 0), user="alice")
        assert [a.approved for a in await asyncio.gather(*waiting)] == [n % 3 == 0 for n in range(20)]

    asyncio.run(scene())


def test_answering_a_withdrawn_request_is_an_error(path: Place) -> None:
    async def scene() -> None:
        store = ApprovalStore(path)
        asked = request()
        waiting = asyncio.ensure_future(Approvals(QueueApprover(store)).decide(asked))
        await until(waits(store))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(ApprovalError, match="its caller no longer waits"):
            store.answer(asked.id, ApprovalAnswer(approved=True, scope=ApprovalScope.ALWAYS), user="alice")
        assert store.remembered(asked) is None

    asyncio.run(scene())


def test_cancelling_at_any_step_leaves_no_pending_request(path: Place) -> None:
    async def scene(steps: int) -> None:
        store = ApprovalStore(path)
        asked = request()
        waiting = asyncio.ensure_future(Approvals(QueueApprover(store)).decide(asked))
        for _ in range(steps):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert store.state(asked.id) in (None, State.WITHDRAWN)
        assert store.pending() == []

    for steps in range(12):
        asyncio.run(scene(steps))


def test_a_timeout_denies_and_withdraws(path: Place) -> None:
    store, asked = ApprovalStore(path), request()
    answer = asyncio.run(Approvals(QueueApprover(store), timeout_seconds=0.05).decide(asked))
    assert not answer.approved
    assert store.state(asked.id) in (State.WITHDRAWN, None)


def test_an_update_in_another_process_denies(path: Place) -> None:
    async def scene() -> None:
        store, other = ApprovalStore(path), ApprovalStore(path)
        asked = request()
        waiting = asyncio.ensure_future(Approvals(QueueApprover(store)).decide(asked))
        await until(waits(store))
        other.tool_changed("write_file", digest="d2", grant="g1")
        answer = await waiting
        assert not answer.approved
        assert "updated" in answer.note
        assert asked.id not in answer.note  # the note may reach a model

    asyncio.run(scene())


@on_a_file
def test_an_unusable_store_denies(path: Place) -> None:
    path.write_text("not a database")
    path.chmod(0o600)
    approvals = Approvals(QueueApprover(ApprovalStore(path)))
    assert approvals.remembered(request()) is None
    answer = asyncio.run(approvals.decide(request()))
    assert not answer.approved
    assert "cannot use the approvals database" in answer.note


@on_a_file
def test_a_store_that_cannot_be_written_reports_that_it_remembers_nothing(path: Place) -> None:
    class Person:
        async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
            path.mkdir()
            return ApprovalAnswer(approved=True, scope=ApprovalScope.ALWAYS)

    answer = asyncio.run(Approvals(Person(), store=ApprovalStore(path)).decide(request()))
    assert (answer.approved, answer.scope) == (True, ApprovalScope.ONCE)
    assert "not remembered" in answer.note


@on_a_file
def test_a_withdrawal_that_cannot_be_written_still_ends_the_wait(path: Place) -> None:
    async def scene() -> None:
        store = ApprovalStore(path)
        waiting = asyncio.ensure_future(Approvals(QueueApprover(store)).decide(request()))
        await until(waits(store))
        path.chmod(0o644)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scene())


def test_an_update_withdraws_here_and_in_the_queue(path: Place) -> None:
    async def scene() -> None:
        store, asked = ApprovalStore(path), request()
        approvals = Approvals(QueueApprover(store))
        waiting = asyncio.ensure_future(approvals.decide(asked))
        await until(waits(store))
        approvals.tool_changed("write_file", digest="d2", grant="g1")
        assert not (await waiting).approved
        assert store.state(asked.id) is State.OUTDATED

    asyncio.run(scene())


@on_a_file
def test_an_update_withdraws_here_even_if_the_queue_cannot_be_written(path: Place) -> None:
    async def scene() -> None:
        store = ApprovalStore(path)
        approvals = Approvals(QueueApprover(store))
        waiting = asyncio.ensure_future(approvals.decide(request()))
        await until(waits(store))
        path.chmod(0o644)
        with pytest.raises(ApprovalError):
            approvals.tool_changed("write_file", digest="d2", grant="g1")
        assert not (await waiting).approved

    asyncio.run(scene())


def test_other_threads_answer_many_pending_requests(path: Place) -> None:
    store = ApprovalStore(path)
    asked = [request({"n": n}) for n in range(8)]
    got: list[bool] = []

    def wait(one: ApprovalRequest) -> None:
        got.append(asyncio.run(Approvals(QueueApprover(store)).decide(one)).approved)

    threads = [threading.Thread(target=wait, args=(one,)) for one in asked]
    for thread in threads:
        thread.start()
    while len(store.decided()) < 8:
        for each in store.pending():
            store.answer(each.id, ApprovalAnswer(approved=True), user="alice")
    for thread in threads:
        thread.join(30)
    assert got == [True] * 8


def test_a_parked_request_applies_only_to_its_conversation(path: Place) -> None:
    store = ApprovalStore(path)

    async def scenario() -> None:
        parked = ParkedRequests(store)
        one, other = await parked.park(request(trace="t1"), "editor"), await parked.park(request(trace="t2"), "editor")
        assert one is not other
        assert len(store.pending()) == 2
        await asyncio.to_thread(store.answer, one.id, ApprovalAnswer(approved=True, by="ann"), user="alice")
        assert await parked.answer(await parked.park(request(trace="t2"), "editor")) is None
        taken = await parked.answer(await parked.park(request(trace="t1"), "editor"))
        assert taken is not None
        assert taken.approved

    asyncio.run(scenario())
