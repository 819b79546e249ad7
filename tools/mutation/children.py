"""Wait for a process that runs the tests of a mutant, and kill it if it exceeds its time or memory."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_MOST_BYTES = 3 * 2**30
_LOOK_SECONDS = 0.01


def outcome_of(child: int, seconds: float) -> str:
    """Return `killed`, `survived`, `timeout`, `memory` or `untested` for a child that leads a process group."""
    deadline = time.monotonic() + seconds
    try:
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return _of_code(os.waitstatus_to_exitcode(status))
            if time.monotonic() > deadline:
                return "timeout"
            if _resident_bytes(child) > _MOST_BYTES:
                return "memory"
            time.sleep(_LOOK_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # the child's process group, with the processes that it started
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def _of_code(code: int) -> str:
    if code == 0:
        return "survived"
    if code == 5:  # pytest's code for no tests
        return "untested"
    return "killed"


def _resident_bytes(process: int) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
