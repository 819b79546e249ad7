"""The threads of guests that may outlive their callers: kept a while, ended when idle, never given a task when gone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

import wasmrt.call._detached as detached_file
from tests.border.conftest import a_call
from tests.call.conftest import until
from wasmrt.call import DetachedRunner
from wasmrt.errors import CancelledError, DeadlineExceededError


def guests() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "wasmrt-guest"}


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[DetachedRunner]:
    """One whose idle threads end at once."""
    monkeypatch.setattr(detached_file, "_IDLE_SECONDS", 0.02)
    before = guests()
    runner = DetachedRunner()
    yield runner
    runner.close()
    until(lambda: guests() <= before)


def nothing() -> None:
    pass


def test_a_thread_that_has_nothing_to_do_ends_and_the_next_guest_gets_another(runner: DetachedRunner) -> None:
    before = guests()
    for _ in range(2):
        assert runner.run(a_call(), lambda: "answered", nothing, nothing) == "answered"
        until(lambda: guests() <= before)


def test_a_thread_that_has_waited_long_is_let_go_once(runner: DetachedRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached_file, "_IDLE_SECONDS", 60.0)
    runner.run(a_call(), lambda: "", nothing, nothing)
    until(lambda: len(runner._idle) == 1)
    worker = runner._idle[0]
    assert [runner.release(worker), runner.release(worker)] == [True, False]
    assert not runner._idle
    assert runner.park(worker)


def test_a_thread_whose_runner_was_closed_ends_with_its_guest(
    runner: DetachedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detached_file, "_IDLE_SECONDS", 60.0)
    before = guests()

    def close() -> str:
        runner.close()
        return "answered"

    assert runner.run(a_call(), close, nothing, nothing) == "answered"
    until(lambda: guests() <= before)


def test_a_thread_that_was_taken_and_got_no_task_ends_and_takes_none(runner: DetachedRunner) -> None:
    runner.run(a_call(), lambda: "", nothing, nothing)
    until(lambda: len(runner._idle) == 1)
    taken = runner._idle.pop()  # as one does who is interrupted before there is a task to give
    taken.join()
    runner._idle.append(taken)
    assert runner.run(a_call(), lambda: "answered", nothing, nothing) == "answered"
    assert not taken.is_alive()


def test_a_task_that_is_given_twice_is_done_once(runner: DetachedRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached_file, "_IDLE_SECONDS", 60.0)
    done: list[str] = []
    first = detached_file._Task(a_call(), lambda: done.append("first") or "", nothing)
    worker = detached_file._Worker(runner)
    worker.give(first)
    first.ended.acquire()
    until(lambda: worker in runner._idle)
    worker.give(first)
    until(lambda: worker._task is None)
    second = detached_file._Task(a_call(), lambda: done.append("second") or "", nothing)
    assert worker.give(second)
    second.ended.acquire()
    assert done == ["first", "second"]


class _RungError(BaseException):
    pass


@pytest.mark.parametrize("how", ["signal", "deadline", "cancelled"])
def test_a_guest_whose_caller_is_gone_is_put_away_when_it_ends(runner: DetachedRunner, how: str) -> None:
    running, release = threading.Event(), threading.Event()
    order: list[str] = []

    def guest() -> str:
        running.set()
        release.wait()
        return "too late"

    def ring(number: int, frame: FrameType | None) -> None:
        raise _RungError

    def interrupt() -> None:
        running.wait()
        if how == "signal":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        elif how == "cancelled":
            call.lifetime.cancel()

    call = a_call(timeout_seconds=0.1 if how == "deadline" else 60)
    expected = {"signal": _RungError, "deadline": DeadlineExceededError, "cancelled": CancelledError}[how]
    before = signal.signal(signal.SIGUSR1, ring)
    sender = threading.Thread(target=interrupt)
    try:
        sender.start()
        with pytest.raises(expected):
            runner.run(call, guest, lambda: order.append("kept"), lambda: order.append("put away"))
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    assert call.abandoned
    assert call.lifetime.is_over
    assert order == ["kept"]
    release.set()
    until(lambda: order == ["kept", "put away"])


def test_an_answer_that_comes_while_its_caller_gives_up_is_still_the_answer(
    runner: DetachedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detached_file, "_IDLE_SECONDS", 60.0)
    release = threading.Event()

    def guest() -> str:
        release.wait()
        return "just in time"

    def keep() -> None:
        release.set()
        until(lambda: len(runner._idle) == 1)

    call = a_call(timeout_seconds=0.01)
    assert runner.run(call, guest, keep, lambda: pytest.fail("nobody gave up")) == "just in time"
    assert not call.abandoned


def test_what_a_guest_raises_is_raised_to_its_caller(runner: DetachedRunner) -> None:
    def guest() -> str:
        raise LookupError("the guest's")

    call = a_call()
    with pytest.raises(LookupError, match="the guest's"):
        runner.run(call, guest, nothing, nothing)
    assert not call.abandoned


def test_no_more_threads_are_kept_than_may_be_idle(runner: DetachedRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached_file, "_IDLE_SECONDS", 60.0)
    monkeypatch.setattr(detached_file, "_MAX_IDLE", 1)
    together = threading.Barrier(3)
    before = guests()
    threads = [
        threading.Thread(target=lambda: runner.run(a_call(), lambda: str(together.wait()), nothing, nothing))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: len(guests() - before) == 1)
    assert len(runner._idle) == 1
