"""Processes as shown by the kernel."""

from __future__ import annotations

import os
from pathlib import Path


def parent(process: int) -> int:
    """The parent process; -1 if the process is gone."""
    return _field(process, 1)


def children(process: int) -> set[int]:
    """The children of a process that have not been reaped."""
    return {
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and parent(int(entry.name)) == process
    }


def is_alive(process: int) -> bool:
    """True while any thread of the process is left: its socket closes with the last one."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" or len(os.listdir(f"/proc/{process}/task")) > 1
    except OSError:
        return False


def _field(process: int, place: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[place])
    except (OSError, IndexError):
        return -1
