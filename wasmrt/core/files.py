"""Private files: written whole or not at all, and read only where they are what they should be.

A file is made under a name that nobody has, in a folder on the same file system, and then takes its place in one step:
a process that is killed leaves the old file or the new one. A file is opened before it is looked at, so that nobody can
exchange it in between; a pipe, a device or a folder is never read.
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


class Unfit(StrEnum):
    """Reasons not to use a file that is there."""

    LINK = "is a symbolic link"
    NOT_REGULAR = "is not a regular file"
    FOREIGN = "belongs to another user"
    EXPOSED = "can be read or written by other users"
    TOO_LARGE = "is larger than it may be"


class UnfitFileError(OSError):
    """A file is there and cannot be used; `strerror` says why, with the file's name but not its folder."""

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
    """Make `path` a file that holds `parts`, or leave it as it is.

    `mode` are its permissions, less the umask; None keeps those of the file that is there. With `durable`, the file and
    its name are on the disk on return, so that a power cut takes neither back. `drafts` is the folder in which it is
    written first, on the same file system: that of `path` unless said otherwise.

    Raises:
        OSError: it cannot be written.
    """
    kept = stat.S_IMODE(path.stat().st_mode) if mode is None else None
    draft = _write_draft(drafts or path.parent, parts, PRIVATE_MODE if mode is None else mode, durable=durable)
    with _removed_on_failure(draft):
        if kept is not None:
            draft.chmod(kept)
        draft.replace(path)
    if durable:
        sync_folder(path.parent)


def create_file(path: Path, *parts: bytes, durable: bool = True) -> bool:
    """Make `path` a private file that holds `parts`; return False, and leave it alone, where something is there.

    Of several processes that try at once one succeeds, and none sees half a file.

    Raises:
        OSError: it cannot be written.
    """
    draft = _write_draft(path.parent, parts, PRIVATE_MODE, durable=durable)
    try:
        os.link(draft, path)  # unlike `replace`, it fails where the name is taken
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    if durable:
        sync_folder(path.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Have the names in `folder` on the disk.

    Raises:
        OSError: it cannot be opened.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def opened_file(
    path: Path | str, *, follow_link: bool, private: bool = False, folder: int | None = None
) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a regular file to be read, and yield it with its status.

    A symbolic link at the end of `path` is refused unless `follow_link`; with `private`, a file that is another user's
    or that others can read or write. `folder` is the descriptor of an open folder that `path` is a name in.

    Raises:
        UnfitFileError: it is refused.
        OSError: it is not there, or cannot be opened.
    """
    name = os.path.basename(path)  # noqa: PTH119 - of a name in a folder as well
    # O_NONBLOCK: a pipe that nobody writes to would hold the caller before it can be looked at.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
    try:
        handle = os.open(path, flags if follow_link else flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_link:
            raise UnfitFileError(name, Unfit.LINK) from error
        raise
    try:
        status = os.fstat(handle)
        if (reason := unfit(status, private=private)) is not None:
            raise UnfitFileError(name, reason)
        with os.fdopen(handle, "rb", closefd=False) as file:
            yield file, status
    finally:
        os.close(handle)


def read_file(path: Path, *, max_bytes: int, follow_link: bool, private: bool = False) -> bytes:
    """Read a regular file of at most `max_bytes`, opened as by `opened_file`, up to the size it has when it is opened.

    Raises:
        UnfitFileError: it is refused, or larger.
        OSError: it is not there, or cannot be read.
    """
    with opened_file(path, follow_link=follow_link, private=private) as (file, status):
        if status.st_size > max_bytes:
            raise UnfitFileError(path.name, Unfit.TOO_LARGE)
        return file.read(status.st_size)


def write_whole(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of `data` to an open file.

    Raises:
        OSError: it cannot be written.
    """
    rest = memoryview(data)
    while rest:
        if not (written := os.write(descriptor, rest)):
            raise OSError(errno.ENOSPC, "nothing was written")
        rest = rest[written:]


def private_key(path: Path) -> bytes:
    """Return the secret key that `path` holds; it is made on first use. Processes that race end with the same one.

    Raises:
        UnfitFileError: another user owns, or could have read or written it.
        OSError: it cannot be made or read, or is no key.
    """
    try:
        return _read_key(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_file(path, os.urandom(KEY_BYTES))
        return _read_key(path)  # ours, or that of whoever was first


def _read_key(path: Path) -> bytes:
    """SECURITY: whoever can choose the key, or read it, can make what it authenticates."""
    key = read_file(path, max_bytes=KEY_BYTES, follow_link=False, private=True)
    if len(key) != KEY_BYTES:
        raise OSError(0, f"{path.name} is not a key; remove it to have a new one made")
    return key


def unfit(status: os.stat_result, *, private: bool) -> Unfit | None:
    """Return why a file of this status is not used; with `private` it has to be this user's alone."""
    if stat.S_ISLNK(status.st_mode):
        return Unfit.LINK
    if not stat.S_ISREG(status.st_mode):
        return Unfit.NOT_REGULAR
    if not private:
        return None
    # SECURITY: what others can read is no secret, and what others can exchange is nobody's word.
    if status.st_uid != os.geteuid():
        return Unfit.FOREIGN
    return Unfit.EXPOSED if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) else None


def _write_draft(folder: Path, parts: tuple[bytes | memoryview, ...], mode: int, *, durable: bool) -> Path:
    """Write a file under a name that nobody has and nobody can guess."""
    draft = folder / f".new-{os.urandom(8).hex()}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with _removed_on_failure(draft), os.fdopen(handle, "wb") as file:
        file.writelines(parts)
        if durable:
            file.flush()
            os.fsync(handle)
    return draft


@contextmanager
def _removed_on_failure(draft: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
