"""The C library functions for confinement. They are bound at import, because a forked child must not look them up."""

from __future__ import annotations

import ctypes
import os

from wasmrt.sandbox.isolation.confine._syscalls import SUPPORTED, list_numbers

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_long = ctypes.c_long
NUMBERS = list_numbers() if SUPPORTED else {}

if SUPPORTED:
    _library = ctypes.CDLL(None, use_errno=True)
    _syscall = _library.syscall
    _syscall.restype = _long
    _prctl = _library.prctl
    _prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    _sigaction = _library.sigaction


def syscall(name: str, *arguments: int) -> int:
    """Make a system call.

    Raises:
        OSError: the call failed.
    """
    result = int(_syscall(_long(NUMBERS[name]), *map(_long, arguments)))
    if result == -1:
        _fail(name)
    return result


def prctl(option: int, *arguments: int) -> int:
    """Make the system call prctl; arguments that are not given are zero.

    Raises:
        OSError: the call failed.
    """
    result = int(_prctl(option, *arguments, *(0,) * (4 - len(arguments))))
    if result == -1:
        _fail("prctl")
    return result


def sigaction(signal: int, action: int) -> None:
    """Set the action of a signal, given the address of libc's struct sigaction.

    Raises:
        OSError: the action could not be set.
    """
    if _sigaction(signal, ctypes.c_void_p(action), None) == -1:
        _fail("sigaction")


def address(data: bytes) -> int:
    """Return the address of `data`; the caller must keep `data` alive."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def _fail(name: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{name}: {os.strerror(number)}")
