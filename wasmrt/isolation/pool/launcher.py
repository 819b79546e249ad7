"""The host's handle on a zygote, and on the children that it forks."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from wasmrt.errors import InternalError, ToolError
from wasmrt.guest.settings import EngineConfig
from wasmrt.isolation.pool.control import Control, GoneError, held
from wasmrt.isolation.pool.exchange import unbroken
from wasmrt.isolation.wire import Kind
from wasmrt.lifetime import Lifetime

_T = TypeVar("_T")

START_SECONDS = 30.0
"""A machine under load takes its time; one that takes longer has no room for workers."""
_BOOT = """
import gc, sys
gc.disable()
sys.path[:] = __import__("json").loads(sys.argv.pop(1))
from wasmrt.isolation.worker.zygote import main
main()
"""


class Zygote:
    """One zygote process, started at once and spoken to when it is first needed. Threads may share it.

    One that somebody ended is started again when the next child is asked for.

    Raises:
        InternalError: it cannot be started.
    """

    def __init__(self, engine: EngineConfig) -> None:
        self._engine = engine
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
            self._control.close()
        with suppress(ChildProcessError):  # somebody waits for every child of the program
            os.waitpid(self._pid, 0)

    def leave(self) -> None:
        """Close this end in a process that was forked: the zygote has to see when the one it serves is gone."""
        self._control.close()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._control = Control(ours, Kind.HELLO, START_SECONDS)
        with theirs:
            self._pid = self._spawn(theirs.fileno())

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
        self._control.close()
        with suppress(ChildProcessError, ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)  # one that does not answer; its number is its own until it is waited for
            os.waitpid(self._pid, 0)
        self._start()
        return ask()

    def _spawn(self, end: int) -> int:
        paths = json.dumps([path or str(Path.cwd()) for path in sys.path])
        metered = "metered" if self._engine.consume_fuel else "unmetered"
        argv = [sys.executable, "-I", "-S", *_bytecode(), "-c", _BOOT, paths]
        argv += [str(self._engine.optimization_level), metered]
        nothing = os.devnull
        actions = [
            (os.POSIX_SPAWN_DUP2, end, 3),
            *((os.POSIX_SPAWN_OPEN, number, nothing, os.O_RDWR, 0) for number in (0, 1, 2)),
        ]
        try:
            # SECURITY: an empty environment; and exec, not fork, so that nothing of the host's memory is in it.
            return os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setpgroup=0)
        except OSError as error:
            raise InternalError(f"no worker process can be started ({error.strerror})") from error


def _bytecode() -> list[str]:
    """Return the options by which another interpreter finds and keeps bytecode where this one does.

    What only workers import would otherwise be compiled anew for each runtime.
    """
    options = ["-B"] if sys.dont_write_bytecode else []
    return options if sys.pycache_prefix is None else [*options, "-X", f"pycache_prefix={sys.pycache_prefix}"]


_zygotes: dict[EngineConfig, tuple[Zygote, int]] = {}
_lock = threading.Lock()


def retain(engine: EngineConfig) -> Zygote:
    """Return this process's zygote for an engine's settings, started if need be; `release` it when done."""
    with _lock:
        zygote, users = _zygotes.get(engine, (None, 0))
        if zygote is None or not zygote.is_ours:
            zygote, users = Zygote(engine), 0
        _zygotes[engine] = (zygote, users + 1)
        return zygote


def release(engine: EngineConfig, zygote: Zygote) -> None:
    """Count one user less; the last one ends the process."""
    with _lock:
        known, users = _zygotes.get(engine, (None, 0))
        if known is not zygote:
            return
        if users > 1:
            _zygotes[engine] = (zygote, users - 1)
            return
        del _zygotes[engine]
    zygote.close()


def _forget_in_child() -> None:
    for zygote, _ in _zygotes.values():
        zygote.leave()
    _zygotes.clear()


def _close_all() -> None:
    for zygote, _ in list(_zygotes.values()):
        zygote.close()


os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(_close_all)
