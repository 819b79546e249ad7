"""Memory files that nobody can change any more, by which bytes reach another process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wasmrt.files import write_whole

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def sealed_memory(data: bytes | memoryview) -> int:
    """Put bytes into a memory file, seal it and return its descriptor.

    Raises:
        OSError: the process may open no more files.
    """
    return sealed_after(lambda descriptor: write_whole(descriptor, data))


def sealed_after(fill: Callable[[int], None]) -> int:
    """Have a memory file filled, seal it and return its descriptor; what `fill` raises leaves none.

    Raises:
        OSError: the process may open no more files.
    """
    descriptor = os.memfd_create("component", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        fill(descriptor)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def memory_file(data: bytes) -> Iterator[int]:
    """Hold bytes in a sealed memory file while another process is given it."""
    descriptor = sealed_memory(data)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
