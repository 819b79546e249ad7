"""Fork a process with one thread, and wait for its children."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

from wasmrt.sandbox.isolation.wire import ClosedError

OWN = 3
"""The descriptor of the process's socket."""
_OK, _BROKEN = 0, 70
_kept: list[socket.socket] = []
"""Sockets kept to the end of the process: its filter may kill it for closing one."""


def spawn(body: Callable[[], None]) -> int:
    """Fork a child that runs `body` and ends; return its PID."""
    pid = os.fork()
    if pid:
        return pid
    code = _BROKEN
    try:
        body()
        code = _OK
    except ClosedError:
        code = _OK
    finally:
        os._exit(code)  # for every exception: the parent's exit handlers must not run


def end_group(pid: int) -> int:
    """End a child and everything it forked; return its status as `waitpid` does."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # its PID is valid, also as its group's, until it was waited for
    return status_of(pid)


def status_of(pid: int) -> int:
    """Wait for a child that has ended; return its status as `waitpid` does, 0 if the PID is not a child's."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0


def own_socket(descriptor: int) -> socket.socket:
    """Install a descriptor as this process's socket, replacing the inherited one."""
    if descriptor != OWN:
        os.dup2(descriptor, OWN, inheritable=False)
        os.close(descriptor)
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, OWN)
    _kept.append(own)
    return own
