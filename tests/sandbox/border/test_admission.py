"""Permits: the order of waiting calls, and that no permit is lost when a wait ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

import pytest

from tests.runtime.call.conftest import until
from tests.sandbox.border.conftest import a_call
from wasmrt.core.errors import CancelledError, DeadlineExceededError, RuntimeClosedError, TooManyCallsError
from wasmrt.core.lifetime import Lifetime
from wasmrt.runtime.call import Admission, Call, QueuedCall
from wasmrt.runtime.call import _admission as admission_file
from wasmrt.runtime.call._admission import GLOBAL_FACTOR


class Entering:
    """A thread that wants a permit."""

    def __init__(self, admission: Admission, call: Call, entered: list[Call]) -> None:
        self.call = call
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._enter, args=(admission, entered))
        before = waiting(admission)
        self._thread.start()
        until(lambda: waiting(admission) > before or call in entered)

    def _enter(self, admission: Admission, entered: list[Call]) -> None:
        try:
            admission.enter(self.call)
            entered.append(self.call)
        except BaseException as error:
            self.error = error

    def join(self) -> BaseException | None:
        self._thread.join()
        return self.error


def waiting(admission: Admission) -> int:
    return sum(len(queue) for queue in admission._queues.values())


def test_users_take_turns_and_each_is_served_in_order() -> None:
    admission, entered = Admission(1), []
    holders = [a_call(user="bob"), *(a_call(user=f"user-{n}") for n in range(GLOBAL_FACTOR - 1))]
    for call in holders:
        admission.enter(call)
    first, second = a_call(user="ann"), a_call(user="ann")
    other = a_call(user="bob")
    threads = [Entering(admission, call, entered) for call in (first, second, other)]
    assert (admission.running, waiting(admission)) == (GLOBAL_FACTOR, 3)
    admission.leave(holders[0])  # one for all of them: ann came first
    until(lambda: entered == [first])
    admission.leave(holders[1])  # ann holds what she may: it is bob's turn
    until(lambda: entered == [first, other])
    admission.leave(first)
    until(lambda: entered == [first, other, second])
    assert [thread.join() for thread in threads] == [None] * 3
    for call in (*holders, second, other, first):
        admission.leave(call)
        admission.leave(call)
    assert admission.running == 0
    assert admission.wait_idle(0)


def test_a_served_user_waits_behind_all_others() -> None:
    admission, entered = Admission(2), []
    holders = [a_call(user=f"user-{n}") for n in range(2 * GLOBAL_FACTOR)]
    for call in holders:
        admission.enter(call)
    first, second, other = a_call(user="ann"), a_call(user="ann"), a_call(user="bob")
    threads = [Entering(admission, call, entered) for call in (first, second, other)]
    for holder, served in zip(holders, (first, other, second), strict=False):
        admission.leave(holder)
        until(lambda served=served: entered[-1:] == [served])
    assert [thread.join() for thread in threads] == [None] * 3


def test_new_calls_do_not_overtake_waiting_calls() -> None:
    admission, entered = Admission(1), []
    holder, second = a_call(user="ann"), a_call(user="ann")
    admission.enter(holder)
    waiter = Entering(admission, second, entered)
    admission.enter(a_call(user="bob"))  # a permit is free, and bob has no other waiting call
    assert entered == []
    admission.leave(holder)
    until(lambda: entered == [second])
    assert waiter.join() is None


def test_permits_of_a_user_are_limited_and_returned_once() -> None:
    admission, entered = Admission(2), []
    first, second, third, fourth = (a_call() for _ in range(4))
    for call in (first, second):
        admission.enter(call)
    admission.leave(first)
    admission.leave(first)
    admission.enter(third)
    assert admission.running == 2
    waiter = Entering(admission, fourth, entered)
    assert entered == []
    admission.leave(second)
    assert waiter.join() is None
    assert admission.running == 2
    for call in (third, fourth):
        admission.leave(call)
    assert admission._held == {}  # users without calls are removed


def test_a_runtime_is_drained_after_its_last_call() -> None:
    admission = Admission(2)
    first, second = a_call(), a_call()
    for call in (first, second):
        admission.enter(call)
    drained: list[bool] = []
    thread = threading.Thread(target=lambda: drained.append(admission.wait_idle(60)))
    thread.start()
    until(lambda: admission._idle is not None)
    admission.leave(first)
    assert not admission._idle.is_set()
    admission.leave(second)
    thread.join()
    assert drained == [True]


@pytest.mark.parametrize("behind", [False, True], ids=["alone", "before another"])
@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda call: None, DeadlineExceededError),
        (lambda call: call.lifetime.cancel(), CancelledError),
        (lambda call: call.lifetime.close(), RuntimeClosedError),
    ],
    ids=["deadline", "cancelled", "closed"],
)
def test_calls_that_stop_waiting_leave_the_queue(
    end: Callable[[Call], None], error: type[Exception], behind: bool
) -> None:
    admission, entered = Admission(1), []
    holder = a_call()
    admission.enter(holder)
    impatient = a_call(timeout_seconds=0.1 if error is DeadlineExceededError else 60)
    thread = Entering(admission, impatient, entered)
    later = Entering(admission, a_call(), entered) if behind else None
    end(impatient)
    ended = thread.join()
    assert type(ended) is error
    if isinstance(ended, DeadlineExceededError):
        assert (ended.limit, ended.setting) == (0.1, "max_concurrent_calls")
        assert ended.used is not None
        assert 0.1 <= ended.used < 60
    assert waiting(admission) == int(behind)
    admission.leave(holder)
    assert later is None or later.join() is None
    assert admission.running == int(behind)


def test_a_closed_runtime_admits_no_calls() -> None:
    admission = Admission(1)
    running = a_call()
    admission.enter(running)
    waiter = Entering(admission, a_call(), [])
    admission.close()
    assert isinstance(waiter.join(), RuntimeClosedError)
    with pytest.raises(RuntimeClosedError):
        admission.enter(a_call())
    with pytest.raises(RuntimeClosedError):
        running.lifetime.check()
    assert not admission.wait_idle(0)
    admission.leave(running)
    assert admission.wait_idle(0)


def queue(admission: Admission, user: str, started: list[str], seconds: float = 60, name: str = "") -> QueuedCall:
    call = QueuedCall(user, Lifetime(seconds))
    admission.queue(call, lambda: started.append(name or user))
    return call


def test_queued_calls_of_users_start_in_turn() -> None:
    admission, started = Admission(1, 1), []
    holder = a_call(user="holder")
    admission.enter(holder)
    calls = {name: queue(admission, name[:3], started, name=name) for name in ("ann 1", "ann 2", "ann 3", "bob 1")}
    assert started == []
    admission.leave(holder)
    for _ in range(3):
        admission.leave(calls[started[-1]])
    assert started == ["ann 1", "bob 1", "ann 2", "ann 3"]
    admission.enter(calls["ann 3"])  # it has a permit
    assert admission.running == 1


def test_a_queued_call_starts_when_it_ends_and_reports_how_long_it_waited() -> None:
    admission, started = Admission(1), []
    admission.enter(a_call(user="ann"))
    late = queue(admission, "ann", started, 60, "late")
    soon = queue(admission, "ann", started, 0.2, "soon")
    cancelled = queue(admission, "ann", started, 60, "cancelled")
    cancelled.lifetime.cancel()
    assert started == ["cancelled"]
    until(lambda: started == ["cancelled", "soon"])
    with pytest.raises(DeadlineExceededError, match=r"waited 0\.2\d* s for a permit") as caught:
        admission.enter(soon)
    assert (caught.value.limit, caught.value.setting) == (0.2, "max_concurrent_calls")
    admission.close()
    assert started == ["cancelled", "soon", "late"]
    with pytest.raises(RuntimeClosedError):
        admission.check(late.lifetime)
    until(lambda: admission._wakes_at is None)  # the thread has ended


def test_a_full_queue_refuses_further_calls_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_file, "WAITING_FACTOR", 2)
    admission, started = Admission(1), []
    holder = a_call(user="ann")
    admission.enter(holder)
    for name in ("first", "second", "third"):
        refused = queue(admission, "ann", started, name=name)
    assert started == ["third"]
    with pytest.raises(TooManyCallsError, match="2 calls of this user wait for a permit") as caught:
        admission.enter(refused)
    assert (caught.value.limit, caught.value.used, caught.value.setting) == (2, 2, "max_concurrent_calls")
    with pytest.raises(TooManyCallsError):
        admission.enter(a_call(user="ann"))
    admission.enter(a_call(user="bob"))
    admission.leave(holder)
    queue(admission, "ann", started, name="fourth")  # one has left the queue
    assert started == ["third", "first"]


def test_the_waiting_calls_of_all_users_are_limited_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_file, "WAITING_FACTOR", 1)
    admission, started = Admission(1, 1), []
    holder = a_call(user="holder")
    admission.enter(holder)
    calls = [queue(admission, f"user-{n}", started, name=f"user-{n}") for n in range(GLOBAL_FACTOR)]
    assert started == []
    with pytest.raises(TooManyCallsError, match=f"{GLOBAL_FACTOR} calls in total wait for a permit") as caught:
        admission.enter(a_call(user="one-more"))
    assert (caught.value.limit, caught.value.used) == (GLOBAL_FACTOR, GLOBAL_FACTOR)
    refused = queue(admission, "one-more", started, name="refused")
    assert started == ["refused"]
    with pytest.raises(TooManyCallsError):
        admission.check(refused.lifetime)
    calls[0].lifetime.cancel()
    admission.leave(holder)
    assert started == ["refused", "user-0", "user-1"]
    queue(admission, "cancelled-place", started, name="in one place")
    queue(admission, "free-place", started, name="in the other")
    queue(admission, "no-place", started, name="refused again")
    assert started[3:] == ["refused again"]


class _RungError(BaseException):
    pass


@pytest.mark.parametrize("admitted", [False, True], ids=["in the queue", "with its permit"])
def test_a_signal_handler_that_raises_while_waiting_loses_no_permit(admitted: bool) -> None:
    def ring(number: int, frame: FrameType | None) -> None:
        if admitted:
            admission.leave(holder)  # the permit is given to the waiting call, which is interrupted
        raise _RungError

    admission, holder = Admission(1), a_call()
    admission.enter(holder)
    waiter = a_call()

    def send() -> None:
        until(lambda: waiting(admission) == 1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)  # a wait of the main thread is interrupted

    before = signal.signal(signal.SIGUSR1, ring)
    sender = threading.Thread(target=send)
    try:
        sender.start()
        with pytest.raises(_RungError):
            admission.enter(waiter)
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    assert waiting(admission) == 0
    admission.leave(holder)
    assert admission.running == 0
    admission.enter(a_call())
