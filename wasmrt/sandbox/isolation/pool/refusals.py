"""Turn the kernel's refusals of descriptors, memfds and processes into errors."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from wasmrt.core.errors import InternalError

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC)


@contextmanager
def refusals() -> Iterator[None]:
    """Raise an `OSError` of the block as an error of this package.

    For code that does not wait, because an exception of a signal handler is not the kernel's refusal.

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
    """Return two connected sockets, for the two ends of a process.

    Raises:
        InternalError: as `refusals`.
    """
    return socket.socketpair()
