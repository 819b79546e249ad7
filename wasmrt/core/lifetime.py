"""The lifetime of a call, and waits that end when the call ends, without polling for its end.

A call ends at its deadline, when it is cancelled, or when the runtime closes.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from weakref import WeakSet

from wasmrt.core.errors import CancelledError, DeadlineExceededError, RuntimeClosedError
from wasmrt.core.tasks import current_task

QUICK_SECONDS = 0.02
"""The first part of a wait on a socket. Longer waits then also wait for the end of the call, which costs more."""
_LONGEST_POLL_SECONDS = 1e6
"""`poll` has a timeout of at most 2**31 milliseconds."""
_MAX_SPARE = 64


class EndEvent:
    """An event that is set when a call ends early, and that wakes waits of any kind.

    It has no lock: a signal handler may set it during any of its methods.
    """

    __slots__ = ("_is_set", "_wakes")

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: list[Callable[[], object]] = []  # list.append and list.remove are atomic

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._is_set

    def set(self) -> None:
        """Set the event, and wake every wait."""
        self._is_set = True
        for wake in tuple(self._wakes):
            wake()

    def clear(self) -> None:
        """Undo `set`, for the next wait."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set or `timeout` seconds have passed; return whether it is set."""
        if self.is_set():
            return True
        task = current_task()
        if task is None:
            return self._block(timeout)
        ends_at = None if timeout is None else time.monotonic() + timeout
        with self.waking(task.wake):
            while not self.is_set():
                left = None if ends_at is None else ends_at - time.monotonic()
                if left is not None and left <= 0:
                    return False
                task.park(left)
        return True

    def _block(self, timeout: float | None) -> bool:
        """Wait as `wait` does, in one C call that signal handlers may interrupt."""
        gate = threading.Lock()
        gate.acquire()

        def open_gate() -> None:
            with suppress(RuntimeError):  # it is open already
                gate.release()

        with self.waking(open_gate):
            gate.acquire(timeout=-1 if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX)))
        return self._is_set

    def on_set(self, wake: Callable[[], object]) -> None:
        """Call `wake` when the event is set, or now if it is set already."""
        self._wakes.append(wake)
        if self._is_set:
            wake()

    def forget(self, wake: Callable[[], object]) -> None:
        """Undo `on_set`. A call of `wake` that has begun may still be running afterwards."""
        try:
            self._wakes.remove(wake)
        except ValueError:  # a signal handler raised before it was added
            return

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """During the block, call `wake` if the event is set. A call of `wake` may still be running after the block."""
        try:
            self.on_set(wake)
            yield
        finally:
            self.forget(wake)


def await_ready(descriptor: int, events: int, seconds: float, ended: EndEvent | None) -> bool:
    """Wait until `poll` reports `events` for a descriptor, until `seconds` have passed, or until `ended` is set.

    Return whether `poll` reported the descriptor. The wait can also end early without a reason.
    """
    if (task := current_task()) is not None:
        if ended is None:
            return task.await_ready(descriptor, events, seconds)
        wake_task = task.wake
        try:  # without the objects of a context manager, because thousands of calls wait here at a time
            ended.on_set(wake_task)
            return task.await_ready(descriptor, events, seconds)
        finally:
            ended.forget(wake_task)
    milliseconds = max(0.0, min(seconds, _LONGEST_POLL_SECONDS)) * 1000  # `poll` does not end with a negative timeout
    poll = select.poll()
    poll.register(descriptor, events)
    if ended is None:
        return bool(poll.poll(milliseconds))
    wake = _take_wake()
    poll.register(wake.reader, select.POLLIN)
    with ended.waking(wake.ring):
        ready = [found for found, _ in poll.poll(milliseconds)]
    if wake.reader in ready:
        wake.clear()
    if len(_spare) < _MAX_SPARE:
        _spare.append(wake)
    return descriptor in ready


class _Wake:
    """A descriptor that other threads make readable. It is closed only when no thread can ring it any more."""

    def __init__(self) -> None:
        if sys.platform == "linux":
            self.reader = self._writer = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            self.reader, self._writer = os.pipe()
            for end in (self.reader, self._writer):
                os.set_blocking(end, False)

    def ring(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._writer, (1).to_bytes(8, sys.byteorder))

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.reader, 8)

    def __del__(self) -> None:
        for end in {self.reader, self._writer}:
            os.close(end)


_spare: list[_Wake] = []  # each is used by one wait at a time; list.pop and list.append are atomic
os.register_at_fork(after_in_child=_spare.clear)  # a child would clear the rings of its parent


def _take_wake() -> _Wake:
    with suppress(IndexError):
        return _spare.pop()
    return _Wake()


_LONGEST_WAIT_SECONDS = 1e9
"""A time that is longer than any deadline, but not longer than the maximum timeout of `threading`."""
_wake_lock = threading.Lock()


class Lifetime:
    """The lifetime of a call, which any thread can end before the deadline.

    Attributes:
        started: The monotonic time in seconds at which the call started.
        deadline: The monotonic time in seconds at which the call ends, never later than the deadline of `within`, the
            lifetime of the outer call.
    """

    __slots__ = ("__weakref__", "_ended_by", "_inner", "_wake", "deadline", "started")

    def __init__(self, seconds: float, *, within: Lifetime | None = None) -> None:
        self.started = time.monotonic()
        own = self.started + seconds
        self.deadline: float = own if within is None else min(own, within.deadline)
        self._ended_by: BaseException | None = None
        self._wake: EndEvent | None = None
        self._inner: WeakSet[Lifetime] | None = None
        if within is not None:
            within._add_inner(self)

    def remaining(self) -> float:
        """Return the seconds until the deadline, limited to the range of timeouts that `threading` accepts."""
        return max(0.0, min(self.deadline - time.monotonic(), _LONGEST_WAIT_SECONDS))

    def check(self) -> None:
        """Raise an error if the call has ended.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended for this reason.
        """
        if self._ended_by is not None:
            raise self._ended_by
        if time.monotonic() >= self.deadline:
            raise self.late()

    def wait(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the call ends.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended.
        """
        self.cancelled.wait(min(seconds, self.remaining()))
        self.check()

    def cancel(self) -> None:
        """Cancel the call. The guest stops at its next import, sleep or epoch tick."""
        self.end(CancelledError("the call was cancelled"))

    def close(self) -> None:
        """End the call because its runtime is closing."""
        self.end(RuntimeClosedError("the runtime was closed while the call ran"))

    def await_ready(self, descriptor: int, events: int) -> None:
        """Wait until a descriptor may be ready for `events` of `poll`, or until the call ends.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended.
        """
        await_ready(descriptor, events, self.remaining(), self.cancelled)
        self.check()

    @property
    def cancelled(self) -> EndEvent:
        """An event that is set when the call is cancelled or its runtime closes. The event is created on first use."""
        wake = self._wake
        if wake is None:
            with _wake_lock:
                wake = self._wake = self._wake or EndEvent()
        return wake

    @property
    def is_over(self) -> bool:
        """True if the call has ended for any reason."""
        return self._ended_by is not None or time.monotonic() >= self.deadline

    def interruption(self) -> BaseException | None:
        """Return the error that ended the call, or None if the call has not ended."""
        if self._ended_by is not None:
            return self._ended_by
        return self.late() if time.monotonic() >= self.deadline else None

    def late(self) -> DeadlineExceededError:
        """Return the error for a call that passed its deadline."""
        allowed = self.deadline - self.started
        return DeadlineExceededError(
            f"the call passed its deadline of {allowed:g} s",
            limit=allowed, used=time.monotonic() - self.started, setting="limits.timeout_seconds",
        )  # fmt: skip

    def _add_inner(self, inner: Lifetime) -> None:
        """Cancel the lifetime of an inner call when this one is cancelled. Inner calls may run at the same time."""
        with _wake_lock:
            if self._inner is None:
                self._inner = WeakSet()  # a call that has ended drops its lifetime
            self._inner.add(inner)
        if self._ended_by is not None:
            inner.cancel()

    def end(self, error: BaseException) -> None:
        """End the call with `error`, unless it has ended."""
        if self._ended_by is None:
            self._ended_by = error
        self.cancelled.set()
        if self._inner is not None:
            with _wake_lock:
                running = list(self._inner)
            for inner in running:
                inner.cancel()
