"""Drafts: files written under a temporary name, in the folder of their final name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def draft_name() -> str:
    """Return a random name, which no other file uses."""
    return f".wasmrt-{os.urandom(8).hex()}"


@contextmanager
def draft(folder: int, content: bytes, finish: Callable[[int], None] | None = None) -> Iterator[str]:
    """Write a temporary file in an open folder and yield its name; delete it if it was not renamed.

    `finish` is called with the file's descriptor after writing. Without `finish`, the file has the default permissions.

    Raises:
        OSError: the file cannot be written.
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
        with suppress(FileNotFoundError):  # it was renamed
            os.unlink(name, dir_fd=folder)


def set_owner(handle: int, uid: int, gid: int) -> None:
    """Change the owner of an open file, if this process is allowed to."""
    if (uid, gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.fchown(handle, uid, gid)
