"""The address of the served pages, for other processes of this user: a file locked by the serving process.

The address contains no session, so it grants no access.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wasmrt.core.files import UnfitFileError, read_file

_MAX_BYTES = 512
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_TRIES = 20
_PAUSE_SECONDS = 0.01
"""Pause before the next attempt to lock the file. It can be short, because readers hold a lock only briefly."""


@contextmanager
def announce_address(file: Path, address: str) -> Iterator[bool]:
    """Announce the pages' address while they are served; yield False if another process serves them already."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    held = os.open(file, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
    try:
        own = _lock(held)
        if own:
            os.ftruncate(held, 0)
            os.pwrite(held, address.encode(), 0)
        yield own
        if own:
            os.ftruncate(held, 0)
    finally:
        os.close(held)  # releases the lock


def announced_address(file: Path) -> str | None:
    """Return the address of the served pages, or None.

    SECURITY: the file of a killed process is ignored, since another process may use its port by now. The lock
    ends with the process.
    """
    try:
        looked = os.open(file, os.O_RDONLY | _FLAGS)
    except OSError:
        return None
    try:
        fcntl.flock(looked, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # locked: a process serves the pages
        try:
            return read_file(file, max_bytes=_MAX_BYTES, follow_link=False, private=True).decode("ascii") or None
        except (UnfitFileError, OSError, UnicodeDecodeError):
            return None
    finally:
        os.close(looked)
    return None


def _lock(held: int) -> bool:
    for _ in range(_TRIES):
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_PAUSE_SECONDS)
        else:
            return True
    return False
