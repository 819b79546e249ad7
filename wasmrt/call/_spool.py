"""Lines on their way to a file, in a mapped file beside it: there a line costs a copy instead of a system call, and
it outlives the process all the same. Whoever opens the file next appends what a crash left behind."""

from __future__ import annotations

import mmap
import os
import re
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # no way to tell a live spool from one that was left behind
    fcntl = None
# A mapped page for which a full disk has no room would end the process.
CAN_SPOOL = fcntl is not None and hasattr(os, "posix_fallocate")

CAPACITY_BYTES = 256 * 1024
_HEAD = struct.Struct("=Q")
"""At the front: how many bytes of lines follow. It is written after them, so that only whole lines count."""
_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class Spool:
    """Lines that wait to be appended to `target`. The caller holds a lock around every method.

    Raises:
        OSError: there is no room for it beside the target.
    """

    def __init__(self, target: Path, number: int) -> None:
        assert fcntl is not None
        self._path = target.with_name(f".{target.name}.{os.getpid()}-{number}.spool")
        self._descriptor = os.open(self._path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = _HEAD.size + CAPACITY_BYTES
            os.posix_fallocate(self._descriptor, 0, size)
            self._memory = mmap.mmap(self._descriptor, size)
        except BaseException:
            os.close(self._descriptor)
            self._path.unlink()
            raise
        self._length = 0

    def put(self, line: bytes) -> bool:
        """Keep a line; False where it finds no room."""
        length = self._length + len(line)
        if length > CAPACITY_BYTES:
            return False
        start = _HEAD.size + self._length
        self._memory[start : start + len(line)] = line
        self._length = length
        _HEAD.pack_into(self._memory, 0, length)
        return True

    def lines(self) -> bytes:
        """Every line that waits."""
        return self._memory[_HEAD.size : _HEAD.size + self._length]

    def forget(self, size: int) -> None:
        """The first `size` bytes are in the target now."""
        rest = self._memory[_HEAD.size + size : _HEAD.size + self._length]
        self._memory[_HEAD.size : _HEAD.size + len(rest)] = rest
        self._length = len(rest)
        _HEAD.pack_into(self._memory, 0, self._length)

    def close(self) -> None:
        """Let go of it, and remove it unless lines still wait in it."""
        if not self._length:
            self._path.unlink(missing_ok=True)
        self._memory.close()
        os.close(self._descriptor)


def left_behind(target: Path) -> Iterator[bytes]:
    """Yield the lines of every spool of `target` whose process is gone, and remove each once its lines were taken.

    Lines whose process ended between appending and forgetting them come a second time.
    """
    assert fcntl is not None
    ours = re.compile(re.escape(f".{target.name}.") + r"\d+-\d+\.spool")  # and not those of `audit.1` for `audit`
    for path in filter(lambda path: ours.fullmatch(path.name), target.parent.iterdir()):
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError:
            continue  # somebody else's, or gone
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # in use
            data = os.read(descriptor, _HEAD.size + CAPACITY_BYTES)
            length = _HEAD.unpack_from(data)[0] if len(data) >= _HEAD.size else 0
            lines = data[_HEAD.size : _HEAD.size + min(length, CAPACITY_BYTES)]
            if lines.endswith(b"\n"):
                yield lines
            path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
