"""Keep executable memory read-only. A process cannot create code if no memory is both writable and executable.

libffi, which runs ctypes' callbacks, allocates them in a writable and executable page, or in a shared page that is
mapped twice: once writable, once executable.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine import _libc
from wasmrt.sandbox.isolation.confine._process import move_high

_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE, _FIXED, _ANONYMOUS = 0x02, 0x10, 0x20
_CHUNK = 64 * 1024


def open_own_maps() -> int:
    """Open the file that `check_code_pages` reads, for use after the process can no longer open files."""
    return move_high(os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC))


def protect_code_pages() -> None:
    """Make this process's executable memory read-only and private.

    Call this with a single thread. Afterwards the process must not create or release ctypes callbacks.
    """
    maps = open_own_maps()
    try:
        for start, size, is_shared in list(_iter_changeable_code(maps)):
            if is_shared:
                code = ctypes.string_at(start, size)
                _libc.syscall("mmap", start, size, _READ | _WRITE, _PRIVATE | _FIXED | _ANONYMOUS, -1, 0)
                ctypes.memmove(start, code, size)
            _libc.syscall("mprotect", start, size, _READ | _EXECUTE)
    finally:
        os.close(maps)


def check_code_pages(maps: int) -> None:
    """Check that this process cannot change executable memory.

    Raises:
        ConfineError: executable memory is writable.
    """
    for _, size, _ in _iter_changeable_code(maps):
        raise ConfineError(
            f"expected no memory that is writable and executable, got {size} bytes",
            hint="please report it, with the versions of Python and libffi",
        )


def _iter_changeable_code(maps: int) -> Iterator[tuple[int, int, bool]]:
    """Yield start, size and whether the mapping is shared, for each executable mapping that is writable or shared.

    SECURITY: mremap(2) duplicates a shared mapping, and the duplicate can be made writable.
    """
    for line in _read_whole(maps).splitlines():
        span, rights = line.split(None, 2)[:2]
        start, end = (int(part, 16) for part in span.split(b"-"))
        if b"x" in rights and (b"w" in rights or b"s" in rights):
            yield start, end - start, b"s" in rights


def _read_whole(descriptor: int) -> bytes:
    whole = bytearray()
    while piece := os.pread(descriptor, _CHUNK, len(whole)):
        whole += piece
    return bytes(whole)
