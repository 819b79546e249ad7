"""Waits that end when a call ends: the end of the call wakes them, so they need not poll for it.

A wait blocks its thread, except in a `Task` of a scheduler: there it lets other tasks of the thread run.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar

QUICK_SECONDS = 0.02
"""The first part of a wait on a socket. Longer waits then also wait for the end of the call, which costs more."""
_LONGEST_POLL_SECONDS = 1e6
"""`poll` has a timeout of at most 2**31 milliseconds."""
_MAX_SPARE = 64
_T = TypeVar("_T")


class Task(Protocol):
    """Code that shares its thread with other tasks. Only `wake` may be called outside of the task."""

    @property
    def group(self) -> object:
        """The object that identifies the tasks of this thread."""

    def spawn(self, work: Callable[[], None]) -> Task:
        """Start another task of this thread, which must not raise."""

    def park(self, seconds: float | None) -> None:
        """Let other tasks run until `wake` was called or `seconds` have passed. May also return early."""

    def await_ready(self, descriptor: int, events: int, seconds: float) -> bool:
        """Park until `poll` would report `events` for a descriptor; return whether it would. May return early."""

    def wake(self) -> None:
        """End the current wait, or the next wait if there is none. Any thread may call this."""

    def offload(self, work: Callable[[], _T]) -> _T:
        """Park while another thread runs `work`; return its result."""


class _Current(threading.local):
    task: Task | None = None


_current = _Current()


def current_task() -> Task | None:
    """Return the task that runs on this thread, or None."""
    return _current.task


def set_current_task(task: Task | None) -> None:
    """Set the task that runs on this thread. Only a scheduler calls this."""
    _current.task = task


def offload(work: Callable[[], _T]) -> _T:
    """Return the result of `work`, which may block: on another thread if this thread is shared with other tasks."""
    task = _current.task
    return work() if task is None else task.offload(work)


class EndEvent(threading.Event):
    """An event that is set when a call ends early, and that wakes waits of any kind."""

    def __init__(self) -> None:
        super().__init__()
        self._wakes: list[Callable[[], object]] = []

    def set(self) -> None:
        """Set the event, and wake every wait."""
        super().set()
        for wake in tuple(self._wakes):
            wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set or `timeout` seconds have passed; return whether it is set."""
        task = _current.task
        if task is None or self.is_set():
            return super().wait(timeout)
        ends_at = None if timeout is None else time.monotonic() + timeout
        with self.waking(task.wake):
            while not self.is_set():
                left = None if ends_at is None else ends_at - time.monotonic()
                if left is not None and left <= 0:
                    return False
                task.park(left)
        return True

    def on_set(self, wake: Callable[[], object]) -> None:
        """Call `wake` when the event is set, or now if it is set already."""
        self._wakes.append(wake)
        if self.is_set():
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """During the block, call `wake` if the event is set. A call of `wake` can overlap the end of the block."""
        try:
            self.on_set(wake)
            yield
        finally:
            with suppress(ValueError):  # a signal handler raised before it was added
                self._wakes.remove(wake)


def await_ready(descriptor: int, events: int, seconds: float, ended: EndEvent | None) -> bool:
    """Wait until `poll` reports `events` for a descriptor, until `seconds` have passed, or until `ended` is set.

    Return whether `poll` reported the descriptor. The wait can also end early without a reason.
    """
    if (task := _current.task) is not None:
        if ended is None:
            return task.await_ready(descriptor, events, seconds)
        with ended.waking(task.wake):
            return task.await_ready(descriptor, events, seconds)
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
