"""Drafts: files that are written under a name that nobody has, in the folder where they will take their place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def draft_name() -> str:
    """Return a name that nobody has and nobody can guess."""
    return f".wasmrt-{os.urandom(8).hex()}"


@contextmanager
def draft(folder: int, content: bytes, finish: Callable[[int], None] | None = None) -> Iterator[str]:
    """Write a file in an open folder and yield its name; `finish` gets its descriptor. Remove what is left of it.

    Without `finish` it has the permissions of any new file.

    Raises:
        OSError: it cannot be written.
    """
    name = draft_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(name, flags, 0o666 if finish is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if finish is not None:
                finish(handle)
        yield name
    finally:
        with suppress(FileNotFoundError):  # it has taken its place
            os.unlink(name, dir_fd=folder)


def give_to(handle: int, uid: int, gid: int) -> None:
    """Give an open file to an owner, where this process may."""
    if (uid, gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.fchown(handle, uid, gid)
