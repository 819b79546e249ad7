"""The host's handle for a zygote and its children."""

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
from wasmrt.sandbox.isolation.pool.control import Control, GoneError, Turns, unbroken, unlimited_lifetime
from wasmrt.sandbox.isolation.wire import Kind

_T = TypeVar("_T")

START_SECONDS = 30.0
"""Maximum time for a zygote to start. A machine that needs longer has no capacity for workers."""


class Zygote:
    """One zygote process, started at once and used when it is first needed. Threads may share it.

    If it was killed, the next `fork` starts another.

    Raises:
        InternalError: the zygote cannot be started.
    """

    def __init__(self) -> None:
        self._lock = Turns()
        self._process = os.getpid()
        self._start()

    def version(self, lifetime: Lifetime) -> str:
        """Return the version of the engine, for which machine code is compiled. Raises the errors of `fork`."""
        return self._exchange(lambda: self._control.greeting(lifetime), lifetime).fields().text("version", 64)

    def fork(self, kind: Kind, head: dict[str, object], descriptors: list[int], lifetime: Lifetime) -> int:
        """Fork a child with these descriptors; return its PID.

        Raises:
            InternalError: the zygote has ended.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended before the answer. If a child
                was forked, it is ended.
        """
        return self._exchange(
            lambda: self._control.number(kind, head, descriptors, Kind.SPAWNED, "pid", lifetime), lifetime
        )

    def end(self, pid: int, lifetime: Lifetime) -> int:
        """End a child and everything it forked. Return its `waitpid` status, or 0 if the status is not known in time.

        Close the child's socket before, so that the child ends even if this wait is cut short.
        """
        return unbroken(lambda: self._end(pid, lifetime)) if self.is_ours else 0

    @property
    def is_ours(self) -> bool:
        """False after `close`, and in a process forked from the owner."""
        return self._process == os.getpid() and self._control.is_open

    def close(self) -> None:
        """End the zygote; its children end with it."""
        with self._lock.hold(unlimited_lifetime()):
            if not self.is_ours:
                return
            listens = self._control.is_greeted
            self._control.close()
        if not listens:  # it reads its socket only after its imports
            spawn.kill(self._pid)
            return
        with suppress(ChildProcessError):  # other code of this process waited for the child
            os.waitpid(self._pid, 0)

    def leave(self) -> None:
        """Close this end in a forked process, so that the zygote notices when its owner has ended."""
        self._control.close()

    def _start(self) -> None:
        self._pid, end = spawn.start()
        self._control = Control(end, Kind.HELLO, START_SECONDS)

    def _end(self, pid: int, lifetime: Lifetime) -> int:
        asked = False
        try:
            with self._lock.hold(lifetime):
                asked = True
                return self._control.status(pid, lifetime) if self.is_ours else 0
        except (GoneError, ToolError):
            if not asked:
                self._control.leave(pid)
            return 0

    def _exchange(self, ask: Callable[[], _T], lifetime: Lifetime) -> _T:
        def alone() -> _T:
            with self._lock.hold(lifetime):
                return self._again(ask)

        return unbroken(alone)

    def _again(self, ask: Callable[[], _T]) -> _T:
        """Send a request. If the zygote and its children have ended, start another and repeat the request."""
        try:
            return ask()
        except GoneError:
            if not self.is_ours:
                raise
        gone, control = self._pid, self._control
        self._start()  # first: if none can be started now, the next call tries again
        control.close()
        spawn.kill(gone)  # it does not answer
        return ask()


_shared: list[tuple[Zygote, int]] = []
"""The zygote and the number of its users. Assigned in one step, because threads fork and signal handlers raise."""
_lock = threading.Lock()


def acquire_zygote() -> Zygote:
    """Return this process's zygote, started if needed; call `release_zygote` when done."""
    with _lock:
        zygote, users = _shared[0] if _shared else (None, 0)
        if zygote is None or not zygote.is_ours:
            zygote, users = Zygote(), 0
        _shared[:] = [(zygote, users + 1)]
        return zygote


def release_zygote(zygote: Zygote) -> None:
    """Release the zygote; the last user ends the process."""
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
