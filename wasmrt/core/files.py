"""Write files atomically, and check files before reading them.

A file is written under a random temporary name on the same file system, then renamed. If the process is killed, either
the old or the new file remains. A file is opened before it is checked, so that another process cannot replace it in
between. Pipes, devices and directories are never read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

PRIVATE_MODE = 0o600
KEY_BYTES = 32
DRAFT_PREFIX = ".new-"
"""Prefix of the names of temporary files; a file remains if its process is killed."""


class Unfit(StrEnum):
    """A reason why an existing file is refused."""

    LINK = "is a symbolic link"
    NOT_REGULAR = "is not a regular file"
    FOREIGN = "belongs to another user"
    EXPOSED = "can be read or written by other users"
    TOO_LARGE = "is larger than the limit"


class UnfitFileError(OSError):
    """An existing file is refused. `strerror` contains the name of the file, without directory, and the reason."""

    def __init__(self, name: str, reason: Unfit) -> None:
        super().__init__(0, f"{name} {reason}")
        self.reason = reason


def replace_file(
    path: Path,
    *parts: bytes | memoryview,
    mode: int | None = PRIVATE_MODE,
    durable: bool = True,
    drafts: Path | None = None,
) -> None:
    """Write `parts` to `path` atomically. If this fails, the old file remains unchanged.

    Args:
        path: The file.
        parts: The contents, which are written one after the other.
        mode: The permissions of the file, reduced by the umask, or None for the permissions of the existing file.
        durable: Whether to sync contents and name to disk before returning.
        drafts: The directory for the temporary file, on the same file system; by default the directory of `path`.

    Raises:
        OSError: the file cannot be written.
    """
    kept = stat.S_IMODE(path.stat().st_mode) if mode is None else None
    draft = _write_draft(drafts or path.parent, parts, PRIVATE_MODE if mode is None else mode, durable=durable)
    with _remove_on_failure(draft):
        if kept is not None:
            draft.chmod(kept)
        draft.replace(path)
    if durable:
        sync_folder(path.parent)


def create_file(path: Path, *parts: bytes, durable: bool = True) -> bool:
    """Create the private file `path` with the contents `parts`. If `path` exists, return False and change nothing.

    If several processes create the file at the same time, exactly one succeeds. No process sees an incomplete file.

    Raises:
        OSError: the file cannot be written.
    """
    draft = _write_draft(path.parent, parts, PRIVATE_MODE, durable=durable)
    try:
        os.link(draft, path)  # unlike `replace`, fails if the name is taken
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    if durable:
        sync_folder(path.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Sync a directory to disk, so that the names of new files in it are durable.

    Raises:
        OSError: the directory cannot be opened.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def open_file(
    path: Path | str, *, follow_link: bool, private: bool = False, folder: int | None = None
) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a regular file for reading, and yield the open file and its status.

    If `path` itself is a symbolic link, it is refused unless `follow_link` is true. With `private`, a file that belongs
    to another user, or that other users can read or write, is refused. With `folder`, the descriptor of an open
    directory, `path` is relative to that directory.

    Raises:
        UnfitFileError: the file is refused.
        OSError: the file does not exist or cannot be opened.
    """
    name = os.path.basename(path)  # noqa: PTH119 - `path` may be relative to `folder`
    # O_NONBLOCK: opening a pipe without a writer would block.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
    try:
        handle = os.open(path, flags if follow_link else flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_link:
            raise UnfitFileError(name, Unfit.LINK) from error
        raise
    try:
        status = os.fstat(handle)
        if (reason := find_unfitness(status, private=private)) is not None:
            raise UnfitFileError(name, reason)
        with os.fdopen(handle, "rb", closefd=False) as file:
            yield file, status
    finally:
        os.close(handle)


def read_file(path: Path, *, max_bytes: int, follow_link: bool, private: bool = False) -> bytes:
    """Read a regular file of at most `max_bytes`. Data that is appended after opening is not read. See `open_file`.

    Raises:
        UnfitFileError: the file is refused, or has more than `max_bytes`.
        OSError: the file does not exist or cannot be read.
    """
    with open_file(path, follow_link=follow_link, private=private) as (file, status):
        if status.st_size > max_bytes:
            raise UnfitFileError(path.name, Unfit.TOO_LARGE)
        return file.read(status.st_size)


def folder_size(folder: Path) -> int:
    """Return the total size in bytes of all readable files below a folder. Links are not followed."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # removed since
                size += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - twice as fast for many files
    return size


def write_whole(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of `data` to an open file.

    Raises:
        OSError: the data cannot be written.
    """
    rest = memoryview(data)
    while rest:
        if not (written := os.write(descriptor, rest)):
            raise OSError(errno.ENOSPC, "nothing was written")
        rest = rest[written:]


def private_key(path: Path) -> bytes:
    """Return the secret key in the file `path`, which is created on first use. Concurrent processes get the same key.

    Raises:
        UnfitFileError: the file belongs to another user, or other users can read or write it.
        OSError: the file cannot be created or read, or does not contain a key.
    """
    try:
        return _read_key(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_file(path, os.urandom(KEY_BYTES))
        return _read_key(path)  # this process's key, or that of the process that created the file first


def _read_key(path: Path) -> bytes:
    # SECURITY: a process that can choose or read the key can forge everything that the key authenticates.
    key = read_file(path, max_bytes=KEY_BYTES, follow_link=False, private=True)
    if len(key) != KEY_BYTES:
        raise OSError(0, f"{path.name} does not contain a key; remove the file to create a new key")
    return key


def find_unfitness(status: os.stat_result, *, private: bool) -> Unfit | None:
    """Return the reason why a file with this status is refused, or None.

    With `private`, a file is also refused if it belongs to another user or other users can access it.
    """
    if stat.S_ISLNK(status.st_mode):
        return Unfit.LINK
    if not stat.S_ISREG(status.st_mode):
        return Unfit.NOT_REGULAR
    if not private:
        return None
    # SECURITY: other users can read, or replace, a file that is not private.
    if status.st_uid != os.geteuid():
        return Unfit.FOREIGN
    return Unfit.EXPOSED if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) else None


def _write_draft(folder: Path, parts: tuple[bytes | memoryview, ...], mode: int, *, durable: bool) -> Path:
    """Write `parts` to a new file with a random name, and return its path."""
    draft = folder / f"{DRAFT_PREFIX}{os.urandom(8).hex()}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with _remove_on_failure(draft), os.fdopen(handle, "wb") as file:
        file.writelines(parts)
        if durable:
            file.flush()
            os.fsync(handle)
    return draft


@contextmanager
def _remove_on_failure(draft: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
