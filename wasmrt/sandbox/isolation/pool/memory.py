"""Sealed memfds and socket pairs for other processes, with errors if the kernel refuses them."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wasmrt.core.errors import InternalError
from wasmrt.core.files import write_whole

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC)


@contextmanager
def refusals() -> Iterator[None]:
    """Raise an `OSError` of the block as `InternalError`.

    The block must not wait: an exception of a signal handler would be mistaken for a refusal of the kernel.

    Raises:
        InternalError: no worker process can be started.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:  # TimeoutError of a signal handler, such as of an alarm
            raise
        raise InternalError(
            f"no worker process can be started ({error.strerror})",
            hint="close files or runtimes that are not needed, or raise the limits of this process (ulimit -a)"
            if error.errno in _SCARCE
            else None,
        ) from error


@refusals()
def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets, one for each process.

    Raises:
        InternalError: see `refusals`.
    """
    return socket.socketpair()


_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_TRIES = 10
"""Attempts, each with a new memfd. If a page of a memfd is pinned, the kernel tries 0.15 s, then refuses to seal it."""


def sealed_memory(data: bytes | memoryview) -> int:
    """Put bytes into a memfd, seal it and return its descriptor.

    Raises:
        InternalError: the process may open no more files, or the machine has no memory left.
    """
    return sealed_after(lambda descriptor: write_whole(descriptor, data))


@refusals()
def sealed_after(fill: Callable[[int], None]) -> int:
    """Fill a memfd with `fill`, seal it and return its descriptor. If `fill` raises, close the memfd.

    If a memfd cannot be sealed (fcntl(2), EBUSY), another one is filled.

    Raises:
        InternalError: see `sealed_memory`.
    """
    for _ in range(_TRIES - 1):
        try:
            return _seal_after(fill)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
    return _seal_after(fill)


def _seal_after(fill: Callable[[int], None]) -> int:
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
    """Yield the descriptor of a sealed memfd with `data`, and close it after the block."""
    descriptor = sealed_memory(data)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
