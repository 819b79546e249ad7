"""Forks of a process with one thread, and the ends of its children."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

from wasmrt.sandbox.isolation.wire import ClosedError

OWN = 3
"""The descriptor of a process's own socket."""
_OK, _BROKEN = 0, 70
_kept: list[socket.socket] = []
"""Sockets to the end of the process: it may be sealed against what Python asks of one that is forgotten."""


def spawn(body: Callable[[], None]) -> int:
    """Fork a child that runs `body` and ends; return its number."""
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
        os._exit(code)  # whatever is on its way up: nothing of the parent's runs at exit


def end_group(pid: int) -> int:
    """End a child with all that it forked, and return its status as `waitpid` gives it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # its number is its own, and its group's, until it was waited for
    return status_of(pid)


def status_of(pid: int) -> int:
    """Wait for a child that has ended, and return its status as `waitpid` gives it; 0 for what is no child."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0


def own_socket(descriptor: int) -> socket.socket:
    """Make a descriptor this process's own socket, in the place of the one it inherited."""
    if descriptor != OWN:
        os.dup2(descriptor, OWN, inheritable=False)
        os.close(descriptor)
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, OWN)
    _kept.append(own)
    return own
