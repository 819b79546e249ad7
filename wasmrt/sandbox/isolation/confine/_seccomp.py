"""Install seccomp filters, and report disallowed calls during development."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Callable

from wasmrt.sandbox.isolation.confine import _libc
from wasmrt.sandbox.isolation.confine._syscalls import MACHINE

_SET_MODE_FILTER = 1
_GET_ACTION_AVAIL = 2
_FLAG_TSYNC = 1
_SA_SIGINFO = 4
_SIGINFO_CALL = 24  # offset of si_syscall in siginfo_t
_RESULT = {"x86_64": 40 + 13 * 8, "aarch64": 176 + 8}
"""Offset of the register that holds a call's result (rax, x0) in ucontext_t."""


class _Program(ctypes.Structure):
    """The kernel's struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


class Filter:
    """A filter in memory, ready to be installed without further preparation."""

    def __init__(self, code: bytes) -> None:
        self._program = _Program(len(code) // 8, code)
        self._address = ctypes.addressof(self._program)

    def install(self) -> None:
        """Install the filter for every thread of this process. no_new_privs must be set.

        Raises:
            OSError: the kernel rejects it, or a thread has a filter that is not an ancestor of the caller's.
        """
        if _libc.syscall("seccomp", _SET_MODE_FILTER, _FLAG_TSYNC, self._address):
            raise OSError(errno.EBUSY, "seccomp: the filter could not be applied to every thread")


def is_available() -> bool:
    """Return whether the kernel supports filters that kill a process."""
    action = ctypes.c_uint32(0x80000000)
    try:
        _libc.syscall("seccomp", _GET_ACTION_AVAIL, 0, ctypes.addressof(action))
    except OSError:
        return False
    return True


class _Action(ctypes.Structure):
    """The struct sigaction of glibc and musl."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_byte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


class Reporter:
    """Write the number of each disallowed call to a descriptor (four bytes each), and fail the call with EPERM.

    For development only: the signal handler runs Python.
    """

    def __init__(self, descriptor: int) -> None:
        result = _RESULT[MACHINE]

        def refused(_signal: int, info: int, context: int) -> None:
            os.write(descriptor, ctypes.string_at(info + _SIGINFO_CALL, 4))
            ctypes.c_long.from_address(context + result).value = -errno.EPERM

        kind: Callable[..., ctypes._CFunctionType] = ctypes.CFUNCTYPE(
            None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
        )
        self._handler = kind(refused)
        self._action = _Action(ctypes.cast(self._handler, ctypes.c_void_p).value, flags=_SA_SIGINFO)

    def install(self) -> None:
        """Install the signal handler."""
        _libc.sigaction(signal.SIGSYS, ctypes.addressof(self._action))
