"""System calls by name, for attempts: whatever the C library has no function for."""

from __future__ import annotations

import ctypes
import os

from wasmrt.sandbox.isolation.confine import SYSTEM_CALLS

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_alive: list[bytes] = []


def call(name: str, *arguments: int) -> int:
    """Make a system call.

    Raises:
        OSError: it failed.
    """
    result = int(_syscall(ctypes.c_long(SYSTEM_CALLS[name]), *map(ctypes.c_long, arguments)))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def address(data: bytes) -> int:
    """Return where bytes lie; they stay there for the life of the process, which is one attempt."""
    _alive.append(data)
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
