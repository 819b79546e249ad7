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

from wasmrt.errors import InternalError
from wasmrt.guest.settings import EngineConfig
from wasmrt.isolation.pool.exchange import unbroken
from wasmrt.isolation.wire import (
    ClosedError,
    Frame,
    Head,
    Kind,
    ProtocolError,
    receive_with_descriptors,
    send_with_descriptors,
)

START_SECONDS = 30.0
"""A machine under load takes its time; one that takes longer has no room for workers."""
_BOOT = """
import sys
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
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._start()

    @property
    def version(self) -> str:
        """The engine's version, which its machine code fits."""
        return self._exchange(self._greeted).text("version", 64)

    def fork(self, kind: Kind, head: dict[str, object], descriptors: list[int]) -> int:
        """Have a child forked that gets these descriptors; return its number.

        Raises:
            InternalError: the zygote is gone.
        """

        def ask() -> Head:
            self._greeted()
            return self._ask(kind, head, descriptors, Kind.SPAWNED)

        return self._exchange(ask).whole("pid")

    def end(self, pid: int) -> int:
        """End a child with all that it forked; return its status as `waitpid` gives it."""

        def ask() -> int:
            with self._lock:
                if self.is_ours:
                    with suppress(InternalError):
                        return self._ask(Kind.REAP, {"pid": pid}, [], Kind.ENDED).whole("status")
                return 0

        return unbroken(ask)

    @property
    def is_ours(self) -> bool:
        """False in a process that was forked from the one that started it, and once it was closed."""
        return self._process == os.getpid() and self._control.fileno() >= 0

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
        self._hello: Head | None = None
        ours, theirs = socket.socketpair()
        ours.settimeout(START_SECONDS)
        self._control = ours
        with theirs:
            self._pid = self._spawn(theirs.fileno())

    def _exchange(self, ask: Callable[[], Head]) -> Head:
        def alone() -> Head:
            with self._lock:
                return self._again(ask)

        return unbroken(alone)

    def _again(self, ask: Callable[[], Head]) -> Head:
        """Ask, and where the zygote is gone, ask another: with it went all that it had forked."""
        try:
            return ask()
        except InternalError:
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
        argv = [sys.executable, "-I", "-S", "-B", "-c", _BOOT, paths, str(self._engine.optimization_level), metered]
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

    def _greeted(self) -> Head:
        if self._hello is None:
            self._hello = self._answer(Kind.HELLO).fields()
        return self._hello

    def _ask(self, kind: Kind, head: dict[str, object], descriptors: list[int], expected: Kind) -> Head:
        try:
            send_with_descriptors(self._control, kind, head, descriptors)
        except ClosedError as error:
            raise InternalError("the process that starts workers is gone") from error
        return self._answer(expected).fields()

    def _answer(self, expected: Kind) -> Frame:
        try:
            frame, _ = receive_with_descriptors(self._control)
        except (ClosedError, ProtocolError) as error:
            raise InternalError(
                "the process that starts workers does not answer",
                hint='see wasmrt doctor; isolation = "in-process" runs guests without workers',
            ) from error
        if frame.kind != expected:
            raise InternalError("the process that starts workers answered something else")
        return frame


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
