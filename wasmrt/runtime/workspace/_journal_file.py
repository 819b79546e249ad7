"""The file format of a call's journal: a line of JSON about the call, then an entry for each change.

An entry is a line of JSON, the saved content, and a line feed. The entry is appended before the change is made. If the
entry is incomplete because the process was killed, the change never began, and the entry is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from wasmrt.capabilities import path_problem, plain_path
from wasmrt.core.errors import UndoError
from wasmrt.core.files import open_file, write_whole
from wasmrt.core.strict_json import JsonError, parse_json, write_json
from wasmrt.runtime.workspace._states import State, read_state

_VERSION = 2
_MAX_LINE_BYTES = 64 << 20
_TEXTS = ("call_id", "tool", "user", "root", "program")


class JournalHead(NamedTuple):
    """The call that a journal belongs to."""

    call_id: str
    tool: str
    user: str
    root: str
    """The absolute path of the workspace."""
    started_ms: int
    """Unix milliseconds."""
    program: str = ""
    """The ID of the code-mode program that made the call; empty if none did."""


class Change(NamedTuple):
    """The change of one name. `before` is None if the journal already contains an earlier change of the name.

    If a later change of the same name has a `before`, the earlier changes of the name failed.
    """

    path: str
    before: State | None
    after: State

    def as_list(self) -> list[Any]:
        """Return the change as JSON data."""
        return [self.path, None if self.before is None else self.before.as_list(), self.after.as_list()]


class ContentLocation(NamedTuple):
    """The location of saved content in a journal's file."""

    offset: int
    size_bytes: int


class JournalRecord(NamedTuple):
    """A parsed journal: every change in order, and the location of each saved content by its BLAKE3 digest."""

    head: JournalHead
    changes: tuple[Change, ...]
    contents: dict[str, ContentLocation]
    size_bytes: int
    """Size of the file, without an incomplete entry."""


def append_head(handle: int, head: JournalHead) -> None:
    """Write the first line of a journal.

    Raises:
        OSError: the line cannot be written.
    """
    _append(handle, (write_json([_VERSION, *head]).encode(), b"\n"))


def append_entry(handle: int, changes: Iterable[Change], contents: Iterable[tuple[str, bytes]]) -> int:
    """Append an entry, and return its size in bytes.

    `contents` are pairs of a BLAKE3 digest in hex and the content.

    Raises:
        OSError: the entry cannot be written; the journal is unchanged.
    """
    stored = tuple(contents)
    line = write_json([[each.as_list() for each in changes], [[digest, len(content)] for digest, content in stored]])
    parts = (line.encode(), b"\n", *(content for _, content in stored), b"\n")
    _append(handle, parts)
    return sum(map(len, parts))


def add_contents(path: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Append contents to a journal. An incomplete entry at the end is overwritten.

    Raises:
        OSError: the journal cannot be written.
    """
    end = read_journal(path).size_bytes
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.ftruncate(handle, end)
        append_entry(handle, (), contents)
    finally:
        os.close(handle)


def read_journal(path: Path) -> JournalRecord:
    """Read a journal; ignore an incomplete entry at the end.

    Raises:
        UndoError: the file is not a journal, or is damaged.
        OSError: the file cannot be read.
    """
    with _open_journal(path) as (file, status):
        head = _read_head(file)
        changes: list[Change] = []
        contents: dict[str, ContentLocation] = {}
        end = file.tell()
        while (entry := _read_entry(file, status.st_size)) is not None:
            changes += entry[0]
            contents |= entry[1]
            end = file.tell()
    return JournalRecord(head, tuple(changes), contents, end)


def read_head(path: Path) -> JournalHead:
    """Read the head of a journal.

    Raises:
        UndoError: the file is not a journal, or is damaged.
        OSError: the file cannot be read.
    """
    with _open_journal(path) as (file, _):
        return _read_head(file)


def read_content(path: Path, location: ContentLocation) -> bytes:
    """Read saved content from a journal.

    Raises:
        OSError: the journal cannot be read.
    """
    with open_file(path, follow_link=False, private=True) as (file, _):
        file.seek(location.offset)
        return file.read(location.size_bytes)


@contextmanager
def _open_journal(path: Path) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a journal for reading. Invalid data that is found in the `with` block is reported as damage."""
    with open_file(path, follow_link=False, private=True) as opened:
        try:
            yield opened
        except (JsonError, ValueError, TypeError) as error:
            hint = "restore the files from a backup"
            raise UndoError("the call's undo journal is damaged", code="undo-damaged", hint=hint) from error


def _append(handle: int, parts: Iterable[bytes]) -> None:
    start = os.lseek(handle, 0, os.SEEK_END)
    try:
        for part in parts:
            write_whole(handle, part)
    except BaseException:
        os.ftruncate(handle, start)
        raise


def _read_head(file: BinaryIO) -> JournalHead:
    version, *values = _parse_line(file.readline(_MAX_LINE_BYTES))
    if (version, len(values)) not in ((_VERSION, len(JournalHead._fields)), (1, len(JournalHead._fields) - 1)):
        raise ValueError("unknown version")
    head = JournalHead(*values)
    if not all(isinstance(getattr(head, name), str) for name in _TEXTS) or type(head.started_ms) is not int:
        raise ValueError("invalid head")
    return head


def _read_entry(file: BinaryIO, size: int) -> tuple[list[Change], dict[str, ContentLocation]] | None:
    text = file.readline(_MAX_LINE_BYTES)
    if not text.endswith(b"\n"):
        return None
    changes, contents = _parse_line(text)
    offset, locations = file.tell(), {}
    for digest, length in contents:
        if not isinstance(digest, str) or type(length) is not int or length < 0:
            raise ValueError("invalid content")
        locations[digest] = ContentLocation(offset, length)
        offset += length
    if offset >= size:  # the final line feed is missing
        return None
    file.seek(offset)
    if file.read(1) != b"\n":
        raise ValueError("entry does not end with a line feed")
    return [_parse_change(*each) for each in changes], locations


def _parse_line(text: bytes) -> Any:
    return parse_json(text.decode())


def _parse_change(path: Any, before: Any, after: Any) -> Change:
    # SECURITY: the journal must not be able to restore paths outside of the workspace.
    if path_problem(path) is not None or plain_path(path) != path:
        raise ValueError("invalid path")
    return Change(path, None if before is None else read_state(before), read_state(after))
