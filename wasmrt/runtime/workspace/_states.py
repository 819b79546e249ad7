"""States of names in the workspace, and their representation in a journal."""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from typing import Any, BinaryIO, NamedTuple

from blake3 import blake3

from wasmrt.core.files import UnfitFileError, open_file

_PIECE_BYTES = 1 << 20
_MODE = 0o7777


class Kind(StrEnum):
    """Kinds of entries to which a name can refer."""

    ABSENT = "absent"
    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"
    """A link, device or pipe: never written, and never restored."""


class State(NamedTuple):
    """The state of one name. A file's owner and time are restored if possible, but not compared."""

    kind: Kind
    mode: int = 0
    size_bytes: int = 0
    digest: str = ""
    """BLAKE3 of a file's content, in hex."""
    mtime_ns: int = 0
    uid: int = -1
    gid: int = -1

    def is_same_as(self, other: State) -> bool:
        """Return whether two states have the same kind and, for files, the same permissions and content."""
        if self.kind is not other.kind or self.kind is Kind.OTHER:
            return False
        return self.kind is not Kind.FILE or (self.mode, self.digest) == (other.mode, other.digest)

    def as_list(self) -> list[Any]:
        """Return the state as JSON data."""
        return [str(self.kind), *self[1:]]


ABSENT = State(Kind.ABSENT)
DIRECTORY = State(Kind.DIRECTORY)


def read_state(data: Any) -> State:
    """Parse a state written by `as_list`.

    Raises:
        ValueError: the data is not a state.
    """
    if not isinstance(data, list) or len(data) != len(State._fields):
        raise ValueError("invalid state")
    kind, mode, size, digest, mtime, uid, gid = data
    if not all(type(each) is int for each in (mode, size, mtime, uid, gid)) or not isinstance(digest, str):
        raise ValueError("invalid state")
    return State(Kind(kind), mode & _MODE, size, digest, mtime, uid, gid)


def make_state(content: bytes, status: os.stat_result) -> State:
    """Return the state of a file, given its content and status."""
    return _make_file_state(blake3(content).hexdigest(), len(content), status)


def state_at(folder: int, name: str) -> State:
    """Return the state of a name in an open folder; files are read in pieces.

    Raises:
        OSError: the name cannot be read.
    """
    return _read_state(folder, name, None)[0]


def read_content(folder: int, name: str, max_bytes: int) -> tuple[State, bytes | None]:
    """Return the state of a name, and the content if the name is a file of at most `max_bytes`, otherwise None.

    Raises:
        OSError: the name cannot be read.
    """
    return _read_state(folder, name, max_bytes)


def _read_state(folder: int, name: str, keep_bytes: int | None) -> tuple[State, bytes | None]:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return ABSENT, None
    if stat.S_ISDIR(status.st_mode):
        return State(Kind.DIRECTORY, stat.S_IMODE(status.st_mode)), None
    if not stat.S_ISREG(status.st_mode):
        return State(Kind.OTHER), None
    try:
        with open_file(name, folder=folder, follow_link=False) as (file, opened):
            if keep_bytes is not None and opened.st_size <= keep_bytes:
                content = file.read(keep_bytes + 1)
                if len(content) <= keep_bytes:
                    return make_state(content, opened), content
                file.seek(0)
            digest, size = _hash_file(file)
            return _make_file_state(digest, size, opened), None
    except UnfitFileError:
        return State(Kind.OTHER), None


def _hash_file(file: BinaryIO) -> tuple[str, int]:
    hashed, size = blake3(), 0
    while piece := file.read(_PIECE_BYTES):
        hashed.update(piece)
        size += len(piece)
    return hashed.hexdigest(), size


def _make_file_state(digest: str, size: int, status: os.stat_result) -> State:
    mode = stat.S_IMODE(status.st_mode)
    return State(Kind.FILE, mode, size, digest, status.st_mtime_ns, status.st_uid, status.st_gid)
