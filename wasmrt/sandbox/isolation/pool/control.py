"""Requests to a process that forks other processes. Answers arrive in order; a wait ends with the call's lifetime.

Python runs signal handlers on the main thread, between any two instructions. Work that signal handlers must not
interrupt therefore runs on a separate thread.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from wasmrt.core.errors import InternalError, ToolError
from wasmrt.core.lifetime import QUICK_SECONDS, EndEvent, Lifetime, await_ready
from wasmrt.core.tasks import current_task
from wasmrt.sandbox.isolation.wire import (
    MAX_CONTROL_BYTES,
    MAX_DESCRIPTION_HEAD,
    Channel,
    ClosedError,
    Frame,
    Kind,
    ProtocolError,
    send_with_descriptors,
)

_T = TypeVar("_T")


def run_unbroken(exchange: Callable[[], _T]) -> _T:
    """Run `exchange` without interruption and return its result. Exceptions of signal handlers are raised afterwards.

    Use this for short work with descriptors that must stay open until the work has ended.
    """
    return _run(exchange, waits=True)


def run_abandonable(work: Callable[[], _T]) -> _T:
    """Return the result of `work`. If a signal handler raises, `work` continues in the background.

    Use this for long work that owns everything it uses.
    """
    return _run(work, waits=False)


def _run(work: Callable[[], _T], *, waits: bool) -> _T:
    if threading.current_thread() is not threading.main_thread():
        return work()
    return _OnItsOwnThread(work, waits=waits).result()


class _OnItsOwnThread(Generic[_T]):
    """Runs a function on a separate thread. With `waits`, the caller waits for it even if a signal handler raises."""

    def __init__(self, work: Callable[[], _T], *, waits: bool) -> None:
        self._work = work
        self._waits = waits
        self._gate = threading.Lock()
        self._begun = self._dropped = False
        self._over = EndEvent()
        self._answers: list[_T] = []
        self._errors: list[BaseException] = []

    def result(self) -> _T:
        try:
            try:
                threading.Thread(target=self._run, name="wasmrt-exchange", daemon=True).start()
            except RuntimeError:  # no thread can be started
                return self._work()
            self._over.wait()
        except BaseException:
            self._let_end()
            raise
        if self._errors:
            raise self._errors[0]
        return self._answers[0]

    def _run(self) -> None:
        with self._gate:
            if self._dropped:
                return
            self._begun = True
        try:
            self._answers.append(self._work())
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._over.set()

    def _let_end(self) -> None:
        """Wait for the work if it has started, else prevent its start. Do this even if signal handlers raise."""
        while True:
            try:
                with self._gate:
                    self._dropped = True
                    if not (self._begun and self._waits) or self._over.is_set():
                        return
                self._over.wait()
            except BaseException:  # noqa: S112 - the first exception is raised, and the wait is bounded
                continue


class GoneError(InternalError):
    """A process that forks others has ended, does not answer, or sent an unexpected answer."""


def unlimited_lifetime() -> Lifetime:
    """Return the lifetime of work that no call waits for. `Control` limits how long the process may take."""
    return Lifetime(float("inf"))


class Turns:
    """A lock that callers get in the order of their requests. A wait for the lock ends with the caller's lifetime.

    The lock is reentrant, for signal handlers that make calls.
    """

    def __init__(self) -> None:
        self._queue: deque[_Turn] = deque()  # the first holds the lock; always consistent: signal handlers may raise

    @contextmanager
    def hold(self, lifetime: Lifetime) -> Iterator[None]:
        """Hold the lock; wait for it no longer than `lifetime`.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended before the lock was free.
        """
        turn, holder = _Turn(), self._first()
        if holder is not None and holder.owner == turn.owner:
            yield
            return
        try:
            self._queue.append(turn)
            if self._first() is not turn:
                with lifetime.cancelled.waking(turn.set):
                    while self._first() is not turn:
                        turn.wait(lifetime.remaining())
                        lifetime.check()
            yield
        finally:
            with suppress(ValueError):
                self._queue.remove(turn)
            if (following := self._first()) is not None:
                following.set()

    def _first(self) -> _Turn | None:
        try:
            return self._queue[0]
        except IndexError:
            return None


class _Turn(EndEvent):
    def __init__(self) -> None:
        super().__init__()
        self.owner = current_task() or threading.get_ident()


class Control:
    """The host's end of the socket of a zygote or a template. Used by one thread at a time.

    If a caller stopped waiting for an answer, the next request skips this answer. If a process was forked for that
    caller, the process is ended. `first` is the kind of the first frame from the process.
    """

    def __init__(self, end: socket.socket, first: Kind, patience: float) -> None:
        self._channel = Channel(end).patient(QUICK_SECONDS)
        self._owed = deque([first])
        self._since = time.monotonic()
        self._patience = patience
        self._ended: list[int] = []
        self._greeting: Frame | None = None
        self._torn = False

    @property
    def is_open(self) -> bool:
        """False after `close`."""
        return self._channel.socket.fileno() >= 0

    @property
    def is_greeted(self) -> bool:
        """True after the process has sent its first frame."""
        return self._greeting is not None

    @contextmanager
    def _exchange_frames(self) -> Iterator[None]:
        """Exchange frames. After an exception other than the end of a call, the channel cannot be used any more."""
        if self._torn:
            raise GoneError("an earlier exchange with the process that forks workers was interrupted")
        try:
            yield
        except ToolError:
            raise
        except BaseException:
            self._torn = True
            raise

    def greeting(self, lifetime: Lifetime) -> Frame:
        """Wait for the process's first frame, and for all answers that no caller waited for.

        Raises:
            GoneError: the process has ended.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended; the wait can be repeated.
        """
        with self._exchange_frames():
            while self._owed:
                frame = self._answer(lifetime)
                if self._greeting is None:
                    self._greeting = frame
                elif frame.kind == Kind.SPAWNED:
                    self._ended.append(_read_number(frame, "pid"))
        assert self._greeting is not None
        return self._greeting

    def ask(
        self, kind: Kind, head: dict[str, Any], descriptors: Sequence[int], expected: Kind, lifetime: Lifetime
    ) -> Frame:
        """Reap the processes that `leave` recorded, then send a request and wait for its answer.

        Raises:
            GoneError: there is no answer.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended; the request still runs.
        """
        self.greeting(lifetime)
        with self._exchange_frames():
            while self._ended:
                self._send(Kind.REAP, {"pid": self._ended.pop()}, (), Kind.ENDED)
                self._answer(lifetime)
            self._send(kind, head, descriptors, expected)
            return self._answer(lifetime)

    def number(
        self, kind: Kind, head: dict[str, Any], descriptors: Sequence[int], expected: Kind, field: str,
        lifetime: Lifetime,
    ) -> int:  # fmt: skip
        """Send a request whose answer is a number, and return the number. Raises the errors of `ask`."""
        return _read_number(self.ask(kind, head, descriptors, expected, lifetime), field)

    def status(self, pid: int, lifetime: Lifetime) -> int:
        """Wait until a process ends, and return its `waitpid` status. Raises the errors of `ask`."""
        return self.number(Kind.REAP, {"pid": pid}, (), Kind.ENDED, "status", lifetime)

    def leave(self, pid: int) -> None:
        """Record a process that was or will be ended. The next request waits for its end. Safe from any thread."""
        self._ended.append(pid)

    def close(self) -> None:
        """Close this end, which ends the process."""
        self._channel.close()

    def _send(self, kind: Kind, head: dict[str, Any], descriptors: Sequence[int], expected: Kind) -> None:
        try:
            send_with_descriptors(self._channel.socket, kind, head, descriptors)
        except ClosedError as error:
            raise GoneError("the process that forks workers has ended") from error
        self._owed.append(expected)
        self._since = time.monotonic()

    def _answer(self, lifetime: Lifetime) -> Frame:
        def look() -> None:
            lifetime.check()
            if self._since + self._patience <= time.monotonic():
                raise GoneError(
                    "the process that forks workers did not answer in time",
                    hint='run wasmrt doctor; to run guests without workers, set isolation = "in-process"',
                )

        def wait(events: int) -> None:
            left = min(lifetime.remaining(), self._since + self._patience - time.monotonic())
            await_ready(self._channel.socket.fileno(), events, left, lifetime.cancelled)
            look()

        self._channel.waiting, self._channel.between = wait, look
        most = MAX_DESCRIPTION_HEAD if self._owed[0] == Kind.DESCRIBED else MAX_CONTROL_BYTES
        try:
            frame = self._channel.receive(most)
        except (ClosedError, ProtocolError) as error:
            raise GoneError("the process that forks workers has ended") from error
        self._since = time.monotonic()
        expected = self._owed.popleft()
        if frame.kind not in (expected, Kind.REFUSED if expected == Kind.READY else expected):
            raise GoneError("the process that forks workers sent an unexpected answer")
        return frame


def _read_number(frame: Frame, field: str) -> int:
    with suppress(ProtocolError):
        return frame.fields().whole(field, 2**31)
    raise GoneError("the answer of the process that forks workers has no process or status number")
