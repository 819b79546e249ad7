"""Room for workers: the kernel may have no descriptor, memory file or process left for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wasmrt.errors import InternalError


@contextmanager
def room() -> Iterator[None]:
    """Raise what the kernel refuses the host as an error of this package.

    Raises:
        InternalError: the host has no room for a worker process.
    """
    try:
        yield
    except OSError as error:
        raise InternalError(
            f"there is no room for a worker process ({error.strerror})",
            hint="close files or runtimes that are not needed, or raise the limits of this process (ulimit -a)",
        ) from error
