"""The host's handle on a zygote, and on the children that it forks."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from wasmrt.core.errors import ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.isolation.pool import spawn
from wasmrt.sandbox.isolation.pool.control import Control, GoneError, held
from wasmrt.sandbox.isolation.pool.exchange import unbroken
from wasmrt.sandbox.isolation.wire import Kind

_T = TypeVar("_T")

START_SECONDS = 30.0
"""A machine under load takes its time; one that takes longer has no room for workers."""


class Zygote:
    """One zygote process, started at once and spoken to when it is first needed. Threads may share it.

    One that somebody ended is started again when the next child is asked for.

    Raises:
        InternalError: it cannot be started.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._start()

    def version(self, lifetime: Lifetime) -> str:
        """Return the engine's version, which its machine code fits; raises as `fork`."""
        return self._exchange(lambda: self._control.greeting(lifetime), lifetime).fields().text("version", 64)

    def fork(self, kind: Kind, head: dict[str, object], descriptors: list[int], lifetime: Lifetime) -> int:
        """Have a child forked that gets these descriptors; return its number.

        Raises:
            InternalError: the zygote is gone.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended before there was an answer;
                a child that was forked all the same is ended.
        """
        return self._exchange(
            lambda: self._control.number(kind, head, descriptors, Kind.SPAWNED, "pid", lifetime), lifetime
        )

    def end(self, pid: int, lifetime: Lifetime) -> int:
        """End a child with all that it forked; return its status as `waitpid` does, 0 where it is not known in time.

        A child that has a socket of its own has to have lost it before: then it ends even where this is not waited for.
        """
        return unbroken(lambda: self._end(pid, lifetime)) if self.is_ours else 0

    @property
    def is_ours(self) -> bool:
        """False in a process that was forked from the one that started it, and once it was closed."""
        return self._process == os.getpid() and self._control.is_open

    def close(self) -> None:
        """End the zygote; its children end with it."""
        with self._lock:
            if not self.is_ours:
                return
            listens = self._control.is_greeted
            self._control.close()
        if not listens:  # it looks at its socket when it has imported everything
            spawn.kill(self._pid)
            return
        with suppress(ChildProcessError):  # somebody waits for every child of the program
            os.waitpid(self._pid, 0)

    def leave(self) -> None:
        """Close this end in a process that was forked: the zygote has to see when the one it serves is gone."""
        self._control.close()

    def _start(self) -> None:
        self._pid, end = spawn.start()
        self._control = Control(end, Kind.HELLO, START_SECONDS)

    def _end(self, pid: int, lifetime: Lifetime) -> int:
        asked = False
        try:
            with held(self._lock, lifetime):
                asked = True
                return self._control.status(pid, lifetime) if self.is_ours else 0
        except (GoneError, ToolError):
            if not asked:
                self._control.leave(pid)
            return 0

    def _exchange(self, ask: Callable[[], _T], lifetime: Lifetime) -> _T:
        def alone() -> _T:
            with held(self._lock, lifetime):
                return self._again(ask)

        return unbroken(alone)

    def _again(self, ask: Callable[[], _T]) -> _T:
        """Ask, and where the zygote is gone, ask another: with it went all that it had forked."""
        try:
            return ask()
        except GoneError:
            if not self.is_ours:
                raise
        gone, control = self._pid, self._control
        self._start()  # first: where none can be started now, the next call tries it again
        control.close()
        spawn.kill(gone)  # one that does not answer
        return ask()


_shared: list[tuple[Zygote, int]] = []
"""This process's zygote and the number of its users; none, or one. Always whole: threads fork, and handlers raise."""
_lock = threading.Lock()


def retain() -> Zygote:
    """Return this process's zygote, started if need be; `release` it when done."""
    with _lock:
        zygote, users = _shared[0] if _shared else (None, 0)
        if zygote is None or not zygote.is_ours:
            zygote, users = Zygote(), 0
        _shared[:] = [(zygote, users + 1)]
        return zygote


def release(zygote: Zygote) -> None:
    """Count one user less; the last one ends the process."""
    with _lock:
        if not _shared or _shared[0][0] is not zygote:
            return
        users = _shared[0][1] - 1
        _shared[:] = [(zygote, users)] if users else []
    if not users:
        zygote.close()


def _forget_in_child() -> None:
    for zygote, _ in _shared:
        zygote.leave()
    _shared.clear()


def _close_all() -> None:
    for zygote, _ in list(_shared):
        zygote.close()


os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(_close_all)
