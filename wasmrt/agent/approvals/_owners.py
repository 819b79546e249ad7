"""The user and the process that an answer or a request belongs to, and whether the process has ended."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

_PROC = Path("/proc")
_ENDED_STATES = ("Z", "X")
"""States of a process that has exited but is still listed, because its parent has not waited for it."""
_STATE, _START = 0, 19
"""Positions in `stat` of the state and the start time, counted after the name of the program (proc_pid_stat(5))."""


def current_user_name() -> str:
    """Return the name of the user who runs this process."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def this_process() -> str:
    """Return an ID of this process, or an empty string if the kernel does not show it."""
    try:
        return f"{_get_pid_scope()} {os.getpid()} {_read_status(os.getpid())[_START]}"
    except (OSError, IndexError):
        return ""


def has_ended(owner: str) -> bool:
    """Return whether the process with an ID from `this_process` has ended; False if this cannot be determined.

    SECURITY: a process of another container or machine is not visible here, so it is not treated as ended. The start
    time distinguishes a process from a later one with the same PID.
    """
    scope, _, process = owner.partition(" ")
    pid, _, start = process.partition(" ")
    try:
        if not pid.isdecimal() or scope != _get_pid_scope():
            return False
        status = _read_status(int(pid))
        return status[_START] != start or status[_STATE] in _ENDED_STATES
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (OSError, IndexError):
        return False


def _get_pid_scope() -> str:
    """Return an ID of the boot and the PID namespace, within which a PID has a meaning."""
    boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{(_PROC / 'self/ns/pid').stat().st_ino}"


def _read_status(pid: int) -> list[str]:
    text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()
