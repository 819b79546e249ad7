"""Start zygotes; one may be started early, in parallel with the rest of a command's imports."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import sys
from contextlib import ExitStack, suppress

from wasmrt.sandbox.isolation.pool.memory import refusals

_BOOT = """
import gc, sys
gc.disable()
sys.path[:] = __import__("json").loads(sys.argv.pop(1))
from wasmrt.sandbox.isolation.worker.zygote import main
main()
"""
_ahead: list[tuple[int, socket.socket]] = []
"""The zygote that was started early, until it is used."""


def start_ahead() -> None:
    """Start a zygote that the next `start` returns. It ends with this process, used or not.

    Raises:
        InternalError: the zygote cannot be started.
    """
    if not _ahead:
        _ahead.append(_start_process())


def start() -> tuple[int, socket.socket]:
    """Start a zygote, or take the one that was started early; return its PID and this end of its socket.

    Raises:
        InternalError: the zygote cannot be started.
    """
    return _ahead.pop() if _ahead else _start_process()


def kill(pid: int) -> None:
    """End a zygote and wait for it. If other code has reaped it, do nothing: another process may have its PID."""
    with suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG) == (0, 0):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _start_process() -> tuple[int, socket.socket]:
    with refusals(), ExitStack() as stack:
        ours, theirs = map(stack.enter_context, socket.socketpair())
        pid = _spawn_process(theirs.fileno())
        theirs.close()
        stack.pop_all()
    return pid, ours


def _spawn_process(end: int) -> int:
    paths = json.dumps([path or os.getcwd() for path in sys.path])  # noqa: PTH109 - a string is needed, and pathlib is slow to import
    argv = [sys.executable, "-I", "-S", *_list_bytecode_options(), "-c", _BOOT, paths]
    actions = [
        (os.POSIX_SPAWN_DUP2, end, 3),
        *((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)),
    ]
    # SECURITY: an empty environment, and exec instead of fork, so that it holds none of the host's memory.
    return os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setpgroup=0)


def _list_bytecode_options() -> list[str]:
    """Return the options that make a second interpreter use the bytecode cache of this interpreter.

    Without them, modules that only workers import would be compiled for each runtime.
    """
    options = ["-B"] if sys.dont_write_bytecode else []
    return options if sys.pycache_prefix is None else [*options, "-X", f"pycache_prefix={sys.pycache_prefix}"]


def _end_unused() -> None:
    for pid, end in _ahead:
        end.close()
        kill(pid)
    _ahead.clear()


def _forget_in_child() -> None:
    for _, end in _ahead:
        end.close()
    _ahead.clear()


os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(_end_unused)
