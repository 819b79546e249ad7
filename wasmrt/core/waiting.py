"""Waits that end when a call ends: the end of the call wakes them, so they need not poll for it."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

QUICK_SECONDS = 0.02
"""The first part of a wait on a socket. Longer waits then also wait for the end of the call, which costs more."""
_LONGEST_POLL_SECONDS = 1e6
"""`poll` has a timeout of at most 2**31 milliseconds."""
_MAX_SPARE = 64


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
