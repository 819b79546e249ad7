"""Requesting approval and remembering answers: an answer applies only to the requests of its scope."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.agent.approvals.requests import WHY, request
from wasmrt.agent.approvals import (
    ApprovalAnswer,
    ApprovalRequest,
    Approvals,
    ApprovalScope,
    ApprovalStore,
    CallbackApprover,
    DenyApprover,
    ParamsPattern,
    Remembered,
    Widening,
    new_request_id,
    params_digest,
)
from wasmrt.agent.approvals import _approvals as module
from wasmrt.agent.approvals._remembered import Answers
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, InvalidParametersError

ALWAYS = ApprovalAnswer(approved=True, scope=ApprovalScope.ALWAYS, by="bob")
SESSION = ApprovalAnswer(approved=True, scope=ApprovalScope.SESSION, by="bob")
ONCE = ApprovalAnswer(approved=True, by="bob")


class Person:
    """Gives prepared answers when the test allows it, and counts the requests."""

    def __init__(self, answer: ApprovalAnswer | None = None) -> None:
        self.asked: list[ApprovalRequest] = []
        self.withdrawn: list[str] = []
        self._answer = answer
        self.open: dict[str, asyncio.Future[ApprovalAnswer]] = {}

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        if self._answer is not None:
            return self._answer
        self.open[request.id] = asyncio.get_running_loop().create_future()
        try:
            return await self.open[request.id]
        except asyncio.CancelledError:
            self.withdrawn.append(request.id)
            raise


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)


def decide(approvals: Approvals, asked: ApprovalRequest) -> ApprovalAnswer:
    return asyncio.run(approvals.decide(asked))


@pytest.mark.parametrize("scope", list(ApprovalScope))
def test_an_answer_applies_to_its_scope(scope: ApprovalScope) -> None:
    approvals = Approvals(Person(ApprovalAnswer(approved=True, scope=scope, by="bob")))
    first = request()
    assert approvals.remembered(first) is None
    assert decide(approvals, first).approved
    again = request()
    other_params = request({"path": "notes/b.txt", "text": "hello"})
    other_session = request(trace="t2")
    held = [approvals.remembered(r) is not None for r in (again, other_params, other_session)]
    assert (
        held
        == {
            ApprovalScope.ONCE: [False, False, False],
            ApprovalScope.SESSION: [True, True, False],
            ApprovalScope.ALWAYS: [True, False, True],
        }[scope]
    )


CHANGES: dict[str, dict[str, Any]] = {
    "another user": {"user": "mallory"},
    "another tool": {"tool": "delete_file"},
    "an update": {"digest": "d2"},
    "a wider grant": {"grant": "g2"},
    "another effect": {"effects": (Effect.WRITE_FILESYSTEM, Effect.NETWORK)},
    "another reason": {"why": WHY._replace(rule="a page that nobody trusts named this path")},
}


@pytest.mark.parametrize("scope", [ApprovalScope.SESSION, ApprovalScope.ALWAYS])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_approval_does_not_apply_to_a_different_request(change: dict[str, Any], scope: ApprovalScope) -> None:
    approvals = Approvals(Person(replace(ALWAYS, scope=scope)))
    decide(approvals, request())
    assert approvals.remembered(request()) is not None
    assert approvals.remembered(request(**change)) is None


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_answer_describes_its_scope(change: dict[str, Any]) -> None:
    kept = Remembered.of(request(), ALWAYS, now_ms=1)
    assert kept.matches(request())
    assert not kept.matches(request(**change))
    assert not Remembered.of(request(digest=""), ALWAYS, now_ms=1).matches(request(digest=""))


def test_remembered_answers_are_bounded_and_the_oldest_is_dropped() -> None:
    answers = Answers(limit=2)
    for n in (1, 2, 2, 3):
        answers.add(Remembered.of(request({"n": n}), ALWAYS, now_ms=n))
    assert [answers.find(request({"n": n})) is not None for n in (1, 2, 3)] == [False, True, True]
    assert len(list(answers)) == 2


@pytest.mark.parametrize("scope", [ApprovalScope.SESSION, ApprovalScope.ALWAYS])
def test_an_answer_for_a_tool_without_a_digest_applies_once(scope: ApprovalScope) -> None:
    approvals = Approvals(Person(replace(ALWAYS, scope=scope)))
    answer = decide(approvals, request(digest=""))
    assert (answer.approved, answer.scope) == (True, ApprovalScope.ONCE)
    assert "no digest" in answer.note
    assert approvals.remembered(request(digest="")) is None


def test_a_session_answer_without_a_trace_applies_once() -> None:
    approvals = Approvals(Person(SESSION))
    assert decide(approvals, request(trace="")).scope is ApprovalScope.ONCE
    assert approvals.remembered(request(trace="")) is None


def test_a_remembered_denial_wins() -> None:
    person = Person()
    person._answer = replace(SESSION, approved=False)
    approvals = Approvals(person)
    decide(approvals, request())
    remembered = approvals.remembered(request())
    assert remembered is not None and not remembered.approved
    person._answer = ALWAYS
    decide(approvals, request(trace="t2"))
    denied, approved = approvals.remembered(request()), approvals.remembered(request(trace="t3"))
    assert denied is not None and not denied.approved
    assert approved is not None and approved.approved


def test_always_applies_to_the_chosen_pattern() -> None:
    asked = request()
    pattern = ParamsPattern(asked.params).widen("text", Widening.parse("any")).widen("path", Widening.parse("notes/"))
    approvals = Approvals(Person(replace(ALWAYS, pattern=pattern)))
    decide(approvals, asked)
    assert approvals.remembered(request({"path": "notes/b/c.txt", "text": "bye"})) is not None
    assert approvals.remembered(request({"path": "other/c.txt", "text": "bye"})) is None
    assert approvals.remembered(request({"path": "notes/c.txt", "text": "bye", "mode": "append"})) is None


def test_always_after_an_edit_applies_to_the_edited_params() -> None:
    edited = {"path": "notes/a.txt", "text": "edited"}
    approvals = Approvals(Person(replace(ALWAYS, params=edited)))
    assert decide(approvals, request()).params == edited
    assert approvals.remembered(request(edited)) is not None
    assert approvals.remembered(request()) is None


def test_answers_of_an_ended_session_are_forgotten() -> None:
    approvals = Approvals(Person(SESSION))
    decide(approvals, request())
    decide(approvals, request(trace="t2"))
    approvals.end_session("t1")
    assert approvals.remembered(request()) is None
    assert approvals.remembered(request(trace="t2")) is not None


def test_later_changes_of_params_do_not_affect_the_request() -> None:
    params = {"paths": ["a"]}
    asked = request(params)
    params["paths"].append("b")
    assert asked.params == {"paths": ["a"]}


@pytest.mark.parametrize("params", [{"x": float("nan")}, {"x": object()}, {"x": "\ud800"}, ["x"], {"x": [[[]]] * 2}])
def test_params_that_are_not_a_json_object_are_rejected(params: Any) -> None:
    if params == {"x": [[[]]] * 2}:  # a value that contains itself
        params["x"].append(params)
    with pytest.raises(InvalidParametersError):
        request(params)


def test_an_unanswered_request_is_denied() -> None:
    answer = decide(Approvals(Person(), timeout_seconds=0.01), request())
    assert not answer.approved and answer.timed_out
    assert "not answered" in answer.note


def test_an_expired_request_is_not_sent_to_the_approver() -> None:
    person = Person(ONCE)
    assert not decide(Approvals(person), request(expires_ms=time.time_ns() // 1_000_000 - 1)).approved
    assert person.asked == []


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_an_invalid_timeout_is_rejected(seconds: float) -> None:
    with pytest.raises(ConfigurationError):
        Approvals(DenyApprover(), timeout_seconds=seconds)


def test_without_an_approver_every_request_is_denied() -> None:
    assert not decide(Approvals(DenyApprover()), request()).approved


async def _answer_async(request: ApprovalRequest) -> ApprovalAnswer:
    return ApprovalAnswer(approved=True, by="bob", note=request.tool)


def _answer_later(request: ApprovalRequest) -> Any:
    return _answer_async(request)


@pytest.mark.parametrize("function", [lambda _: True, lambda _: ONCE, _answer_async, _answer_later])
def test_a_function_approves(function: Callable[[ApprovalRequest], Any]) -> None:
    assert decide(Approvals(CallbackApprover(function)), request()).approved


def _broken(_: ApprovalRequest) -> bool:
    raise LookupError("a text with a secret")


async def _gave_up(_: ApprovalRequest) -> bool:
    raise asyncio.CancelledError


async def _stopped(_: ApprovalRequest) -> bool:
    raise OSError("gone")


def _exhausted(_: ApprovalRequest) -> Any:
    return next(iter(()))


@pytest.mark.parametrize(
    "function", [lambda _: False, lambda _: None, lambda _: "yes", lambda _: 1, _broken, _gave_up, _stopped, _exhausted]
)
def test_a_function_that_fails_or_returns_another_type_denies(function: Callable[..., Any]) -> None:
    answer = decide(Approvals(CallbackApprover(function)), request())
    assert not answer.approved
    assert "secret" not in answer.note


class Odd:
    async def ask(self, request: ApprovalRequest) -> Any:
        return {"approved": True}


def test_an_approver_that_returns_no_answer_denies() -> None:
    assert not decide(Approvals(Odd()), request()).approved


def test_only_true_approves() -> None:
    assert not ApprovalAnswer(approved="no").approved  # type: ignore[arg-type]


def test_cancelling_withdraws_and_later_answers_have_no_effect() -> None:
    async def scene() -> None:
        person = Person()
        approvals = Approvals(person)
        asked = request()
        waiting = asyncio.ensure_future(approvals.decide(asked))
        await until(lambda: person.open)
        late = person.open[asked.id]
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert person.withdrawn == [asked.id]
        assert late.cancelled()  # answering now is an error
        assert approvals.remembered(asked) is None

    asyncio.run(scene())


def test_a_plain_functions_answer_after_cancellation_has_no_effect() -> None:
    called, go, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(_: ApprovalRequest) -> ApprovalAnswer:
        called.set()
        go.wait()
        ended.set()
        return ALWAYS

    async def scene() -> None:
        approvals = Approvals(CallbackApprover(slow))
        waiting = asyncio.ensure_future(approvals.decide(request()))
        await until(called.is_set)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go.set()
        await until(ended.is_set)
        assert approvals.remembered(request()) is None

    asyncio.run(scene())


def test_many_pending_requests_are_answered_separately() -> None:
    async def scene() -> None:
        person = Person()
        approvals = Approvals(person)
        asked = [request({"n": n}) for n in range(50)]
        waiting = [asyncio.ensure_future(approvals.decide(r)) for r in asked]
        await until(lambda: len(person.open) == 50)
        for n, r in reversed(list(enumerate(asked))):
            person.open[r.id].set_result(ApprovalAnswer(approved=n % 2 == 0))
        assert [a.approved for a in await asyncio.gather(*waiting)] == [n % 2 == 0 for n in range(50)]

    asyncio.run(scene())


def test_the_number_of_pending_requests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING_APPROVALS", 2)

    async def scene() -> None:
        person = Person()
        approvals = Approvals(person)
        waiting = [asyncio.ensure_future(approvals.decide(request({"n": n}))) for n in range(2)]
        await until(lambda: len(person.open) == 2)
        assert "too many" in (await approvals.decide(request({"n": 3}))).note
        for future in person.open.values():
            future.set_result(ONCE)
        assert all(a.approved for a in await asyncio.gather(*waiting))
        person._answer = ONCE
        assert (await approvals.decide(request({"n": 3}))).approved

    asyncio.run(scene())


def test_a_session_answer_also_answers_pending_requests_of_the_session() -> None:
    async def scene() -> None:
        person = Person()
        approvals = Approvals(person)
        first, second, foreign = request(), request({"path": "notes/b"}), request(trace="t2")
        waiting = [asyncio.ensure_future(approvals.decide(r)) for r in (first, second, foreign)]
        await until(lambda: len(person.open) == 3)
        person.open[first.id].set_result(SESSION)
        assert (await waiting[0]).approved
        assert (await waiting[1]).approved
        assert person.withdrawn == [second.id]
        assert not waiting[2].done()
        waiting[2].cancel()

    asyncio.run(scene())


def test_a_denial_wins_over_a_simultaneous_approval(tmp_path: Path) -> None:
    class Store(ApprovalStore):
        """Denies the second request at the moment when the answer to the first would approve it."""

        def remembered(self, request: ApprovalRequest) -> Remembered | None:
            if request is second and request.id in person.open:
                person.open[request.id].set_result(ApprovalAnswer(approved=False, by="carol"))
            return super().remembered(request)

    async def scene() -> None:
        approvals = Approvals(person, store=Store(tmp_path / "approvals.sqlite3"))
        waiting = [asyncio.ensure_future(approvals.decide(r)) for r in (first, second)]
        await until(lambda: len(person.open) == 2)
        person.open[first.id].set_result(SESSION)
        assert [a.approved for a in await asyncio.gather(*waiting)] == [True, False]

    person, first, second = Person(), request(), request({"path": "notes/b"})
    asyncio.run(scene())


def test_an_answer_for_an_updated_tool_has_no_effect() -> None:
    async def scene() -> None:
        person = Person()
        approvals = Approvals(person)
        asked = request()
        waiting = asyncio.ensure_future(approvals.decide(asked))
        await until(lambda: person.open)
        approvals.tool_changed("another", digest="d2", grant="g1")
        approvals.tool_changed("write_file", digest="d1", grant="g1")
        assert not waiting.done()
        approvals.tool_changed("write_file", digest="d2", grant="g1")
        person.open[asked.id].set_result(ALWAYS)
        answer = await waiting
        assert not answer.approved
        assert "updated" in answer.note
        assert approvals.remembered(asked) is None

    asyncio.run(scene())


def test_answers_reach_other_threads_and_event_loops() -> None:
    person = Person()
    approvals = Approvals(person)
    answers: list[ApprovalAnswer] = []
    thread = threading.Thread(target=lambda: answers.append(decide(approvals, request({"path": "notes/b"}))))

    async def scene() -> None:
        first = request()
        waiting = asyncio.ensure_future(approvals.decide(first))
        thread.start()
        await until(lambda: len(person.open) == 2)
        person.open[first.id].set_result(SESSION)
        await waiting

    asyncio.run(scene())
    thread.join(30)
    assert [a.approved for a in answers] == [True]


def test_ids_are_short_and_hard_to_guess() -> None:
    ids = {new_request_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(len(i) == 11 and i[5] == "-" and not set(i) & set("01ilo") for i in ids)


def test_the_digest_of_params_depends_only_on_their_data() -> None:
    assert params_digest({"a": 1, "b": [True]}) == params_digest({"b": [True], "a": 1})
    assert len({params_digest({"a": value}) for value in (1, 1.0, True, "1", [1], None)}) == 6
