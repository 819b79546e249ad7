"""Refusals of the kernel to give the host what a worker needs: descriptors, memory files, a process."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from wasmrt.core.errors import InternalError

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC)


@contextmanager
def refusals() -> Iterator[None]:
    """Raise what the kernel refuses the host as an error of this package.

    For what does not wait: an error that a signal's handler raises meanwhile is none of the kernel's.

    Raises:
        InternalError: no worker process can be started.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:  # a handler's TimeoutError, such as of an alarm
            raise
        raise InternalError(
            f"no worker process can be started ({error.strerror})",
            hint="close files or runtimes that are not needed, or raise the limits of this process (ulimit -a)"
            if error.errno in _SCARCE
            else None,
        ) from error


@refusals()
def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets, for the two ends of a process.

    Raises:
        InternalError: as `refusals`.
    """
    return socket.socketpair()
