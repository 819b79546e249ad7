"""The host's handle for a zygote and its children."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

from wasmrt.core.errors import RuntimeClosedError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.isolation.pool import spawn
from wasmrt.sandbox.isolation.pool.control import Control, GoneError, Turns, run_unbroken, unlimited_lifetime
from wasmrt.sandbox.isolation.wire import Kind

_T = TypeVar("_T")

START_SECONDS = 30.0
"""Maximum time for a zygote to start. A machine that needs longer has no capacity for workers."""


class Zygote:
    """One zygote process. It starts when this object is created, and is waited for on first use. Threads may share it.

    SECURITY: each component has its own. Processes forked from one zygote have the same address layout, so a component
    that escaped the engine would know the addresses in the workers of all others.

    Raises:
        InternalError: the zygote cannot be started.
    """

    def __init__(self) -> None:
        self._lock = Turns()
        self._process = os.getpid()
        self._pid, end = spawn.start()
        self._control = Control(end, Kind.HELLO, START_SECONDS)
        _started.add(self)

    def version(self, lifetime: Lifetime) -> str:
        """Return the version of the engine, for which machine code is compiled. Raises the errors of `fork`."""
        return self._exchange(lambda: self._control.greeting(lifetime), lifetime).fields().text("version", 64)

    def fork(self, kind: Kind, head: dict[str, object], descriptors: list[int], lifetime: Lifetime) -> int:
        """Fork a child with these descriptors; return its PID.

        Raises:
            GoneError: the zygote has ended.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended before the answer. If a child
                was forked, it is ended.
        """
        return self._exchange(
            lambda: self._control.number(kind, head, descriptors, Kind.SPAWNED, "pid", lifetime), lifetime
        )

    def end(self, pid: int, lifetime: Lifetime) -> int:
        """End a child and everything it forked. Return its `waitpid` status, or 0 if the status is not known in time.

        Close the child's socket before calling this, so that the child ends even if the wait is cut short.
        """
        return run_unbroken(lambda: self._end(pid, lifetime)) if self.is_ours else 0

    @property
    def is_ours(self) -> bool:
        """False after `close`, and in a process forked from the owner."""
        return self._process == os.getpid() and self._control.is_open

    def close(self) -> None:
        """End the zygote; its children end with it."""
        with self._lock.hold(unlimited_lifetime()):
            if self.is_ours:
                self._control.close()
                spawn.kill(self._pid)

    def leave(self) -> None:
        """Close this end of the socket in a forked process, so that the zygote notices when its owner has ended."""
        self._control.close()

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
                return ask()

        return run_unbroken(alone)


class Zygotes:
    """The zygotes of one runtime. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: weakref.WeakSet[Zygote] = weakref.WeakSet()
        self._closed = False

    def start(self) -> Zygote:
        """Start a zygote. Its user closes it.

        Raises:
            RuntimeClosedError: `close` was called.
            InternalError: the zygote cannot be started.
        """
        with self._lock:
            if self._closed:
                raise RuntimeClosedError("the runtime is closed", hint="create a new WasmToolRuntime")
            zygote = Zygote()
            self._started.add(zygote)
            return zygote

    def close(self) -> None:
        """End all zygotes with their children, and start no more."""
        with self._lock:
            self._closed = True
            left = list(self._started)
        for zygote in left:
            zygote.close()


_started: weakref.WeakSet[Zygote] = weakref.WeakSet()
"""The zygotes of this process."""


def _forget_in_child() -> None:
    for zygote in _started:
        zygote.leave()
    _started.clear()


def _close_all() -> None:
    for zygote in list(_started):
        zygote.close()


os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(_close_all)
