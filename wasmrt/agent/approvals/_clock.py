"""A clock that does not go back: one for all processes that share a database."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

SCHEMA = """
CREATE TABLE clock (seen_ms INTEGER NOT NULL, boot TEXT NOT NULL, boot_ms INTEGER NOT NULL);
INSERT INTO clock VALUES (0, '', 0);
"""


class Clock:
    """Unix milliseconds that never go back, and within one start of the machine never stand still.

    The latest time that was ever seen is kept. A wall clock that is set back does not take anything back, and time
    goes on by the clock that counts from the machine's start (CLOCK_BOOTTIME: suspended or not), which nobody can set.
    One that was set ahead stays ahead, so what should have ended has ended.

    Args:
        wall: Unix seconds.
        boot: The name of this start of the machine, empty where it is not known, and the seconds since then.
    """

    def __init__(self, wall: Callable[[], float] | None = None, boot: Callable[[], tuple[str, float]] | None = None):
        self._wall = wall or time.time
        self._boot = boot or _since_boot

    def now_ms(self, db: sqlite3.Connection) -> int:
        """Return the time, and keep it as the latest that was seen; within a transaction of the caller's."""
        seen_ms, boot, boot_ms = db.execute("SELECT seen_ms, boot, boot_ms FROM clock").fetchone()
        current, seconds = self._boot()
        current_ms = int(seconds * 1000)
        passed_ms = max(0, current_ms - boot_ms) if current and current == boot else 0
        now_ms: int = max(int(self._wall() * 1000), seen_ms + passed_ms)
        db.execute("UPDATE clock SET seen_ms = ?, boot = ?, boot_ms = ?", (now_ms, current, current_ms))
        return now_ms


def _since_boot() -> tuple[str, float]:
    if not hasattr(time, "CLOCK_BOOTTIME"):  # Linux's own
        return "", 0.0
    return _boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
