"""Code that shares its thread with other code: when it waits, the other code runs, and the thread is not blocked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

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
    """Run `work`, which may block, and return its result. If tasks share this thread, use another thread."""
    task = _current.task
    return work() if task is None else task.offload(work)
