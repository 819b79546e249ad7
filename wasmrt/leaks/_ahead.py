"""A large text is looked through on two threads: neither holds the interpreter's lock while it does."""

from __future__ import annotations

import _thread
import contextlib
import os
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

_IDLE_SECONDS = 1.0
_MOST_WAITING = 16
"""With so many tasks before it, another would come too late."""


class Ahead(Generic[T]):
    """What a question about a text is answered with, by another thread while this one is busy otherwise.

    `otherwise` is the answer where that thread broke down.
    """

    __slots__ = ("_answer", "_ask", "_data", "_done", "_free")

    def __init__(self, ask: Callable[[bytes], T], data: bytes, otherwise: T) -> None:
        self._ask = ask
        self._data = data
        self._answer = otherwise
        self._free = _thread.allocate_lock()
        """Taken by whoever comes first."""
        self._done = _thread.allocate_lock()
        self._done.acquire()
        _helpers[-1].hand(self._run)

    def answer(self) -> T:
        """Return the answer, found here where nobody else has begun with it until now."""
        self._run()
        with self._done:
            return self._answer

    def _run(self) -> None:
        if self._free.acquire(blocking=False):
            try:
                self._answer = self._ask(self._data)
            finally:
                self._done.release()


class _Helper:
    """A thread that stays for a second after its last task: to wake it takes a tenth of the time of starting one.

    `threading` is not used: it would wait for the start, and for the end of the process.
    """

    __slots__ = ("_is_there", "_lock", "_tasks")

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._is_there = False

    def hand(self, task: Callable[[], None]) -> None:
        """Have a task done, if a thread can be had and is free before its caller comes back to it."""
        with self._lock:
            if not self._is_there:
                self._is_there = True
                try:
                    _thread.start_new_thread(self._stay, ())
                except RuntimeError:  # no thread can be had
                    self._is_there = False
                    return
            if self._tasks.qsize() < _MOST_WAITING:
                self._tasks.put(task)

    def _stay(self) -> None:
        try:
            while self._works():
                pass
        except BaseException:  # somebody raised it in this thread
            self._is_there = False
            raise

    def _works(self) -> bool:
        """Do the next task; False where none has come for a while, and the thread is to end."""
        try:
            task = self._tasks.get(timeout=_IDLE_SECONDS)
        except Empty:
            with self._lock:
                self._is_there = not self._tasks.empty()
                return self._is_there
        with contextlib.suppress(Exception):  # the caller goes on as if the text may hold anything
            task()
        return True


_helpers = [_Helper()]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _helpers.append(_Helper()))  # the thread stayed in the parent
