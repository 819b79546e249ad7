"""The files of a folder of receipts: its chains, their segments and heads, and the end of a chain.

Chain 0 is in the folder itself, chain N in `chains/N`. The writer of a chain holds an exclusive lock on its head.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import Unfit, UnfitFileError, open_file
from wasmrt.core.limits import MAX_RECEIPT_BYTES, MAX_RECEIPT_CHAINS
from wasmrt.runtime.audit._chain import (
    GENESIS,
    HEAD_BYTES,
    LINE_OVERHEAD_BYTES,
    Head,
    Keys,
    Line,
    has_key_id,
    read_head,
    split_line,
)

HEAD_FILE = "head"
CHAINS = "chains"
_CHAIN = re.compile(r"[0-9]{4}")
_NAME = re.compile(r"receipts-([0-9]{6,12})\.jsonl")
_HEAD_READS = 20
"""Maximum number of attempts to read a head, because its writer may be overwriting it."""


@contextmanager
def reading() -> Iterator[None]:
    """Convert errors of the operating system that are raised in the `with` block.

    Raises:
        ConfigurationError: a file of the chain cannot be read, or is not a regular file.
    """
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the receipts ({error.strerror})", hint="check the owner and the contents of the folder"
        ) from error


# -- chains and segments -------------------------------------------------------------------------------------------


def chain_folder(folder: Path, chain: int) -> Path:
    """Return the path of a chain's folder."""
    return folder / CHAINS / f"{chain:04d}" if chain else folder


def chains(folder: Path) -> list[int]:
    """Return the numbers of the existing chains in ascending order; chain 0 always exists.

    Raises:
        OSError: a folder cannot be read, or is a symbolic link.
    """
    try:
        found = [path for path in refuse_link(folder / CHAINS).iterdir() if _CHAIN.fullmatch(path.name)]
    except (FileNotFoundError, NotADirectoryError):
        return [0]
    return sorted({0, *(int(refuse_link(path).name) for path in found if int(path.name) < MAX_RECEIPT_CHAINS)})


def refuse_link(path: Path) -> Path:
    """Return `path`.

    Raises:
        UnfitFileError: `path` is a symbolic link.
    """
    if path.is_symlink():
        raise UnfitFileError(path.name, Unfit.LINK)
    return path


def segment_path(folder: Path, segment: int) -> Path:
    """Return the path of a segment's file, in the folder of its chain."""
    return folder / f"receipts-{segment:06d}.jsonl"


def list_segments(folder: Path) -> list[int]:
    """Return the numbers of a chain's segments in ascending order, or an empty list if its folder is missing."""
    try:
        found = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name[1]) for name in found if name)


# -- heads ---------------------------------------------------------------------------------------------------------


def current_head(folder: Path, keys: Keys) -> Head | None:
    """Return the head in a chain's folder, or None if there is no authentic one.

    Raises:
        OSError: the head cannot be read.
    """
    try:
        with open_file(folder / HEAD_FILE, follow_link=False) as (file, _):
            return _read_head(file, keys)[1]
    except (FileNotFoundError, NotADirectoryError):
        return None


def _read_head(file: BinaryIO, keys: Keys) -> tuple[bytes, Head | None]:
    for _ in range(_HEAD_READS):
        file.seek(0)
        raw = file.read(HEAD_BYTES)
        if head := read_head(keys, raw):
            return raw, head
    return raw, None


class Snapshot(NamedTuple):
    """The extent of a chain at one moment."""

    raw: bytes
    """The content of the head's file."""
    head: Head | None
    """The head, if it is authentic."""
    known: list[int]
    """The segments."""
    newest_bytes: int
    """Size of the newest segment."""
    running: bool
    """True if a writer holds the chain. The snapshot then ends with the last record that the head counts."""


def take_snapshot(folder: Path, keys: Keys) -> Snapshot:
    """Return the extent of a chain. Its writer is not delayed.

    Raises:
        OSError: a file cannot be read.
    """
    known = list_segments(folder)  # before the head, which exists before the first segment
    try:
        with open_file(folder / HEAD_FILE, follow_link=False) as (file, _):
            running = not lock_file(file.fileno(), fcntl.LOCK_SH)
            raw, head = _read_head(file, keys)
            if not running:
                known = list_segments(folder)
            elif head is not None:
                known = [each for each in list_segments(folder) if each < head.segment + bool(head.size)]
            size = segment_path(folder, known[-1]).stat().st_size if known else 0
            if running and head is not None and known[-1:] == [head.segment]:
                size = head.size
            return Snapshot(raw, head, known, size, running)
    except (FileNotFoundError, NotADirectoryError):
        size = segment_path(folder, known[-1]).stat().st_size if known else 0
        return Snapshot(b"", None, known, size, running=False)


def lock_file(file: int, kind: int) -> bool:
    """Take an advisory lock on an open file without waiting; return whether that succeeded."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# -- the end of a chain --------------------------------------------------------------------------------------------

MAX_LINE_BYTES = MAX_RECEIPT_BYTES + 16 * LINE_OVERHEAD_BYTES
_MAX_EXTRA_BYTES = 8 * MAX_LINE_BYTES
"""Maximum size of lines that the head does not count. A process that is killed between two writes leaves one line."""


class Cut(NamedTuple):
    """A segment before which receipts may be missing."""

    chain: int
    segment: int
    opening: str
    """The hash of the segment's first record."""


class Tail(NamedTuple):
    """The end of the chain as found in the files."""

    at: Head
    reason: str = ""
    """The reason to start a new segment; empty if the current segment can be continued."""
    torn: bytes = b""
    """The bytes of an incomplete line at the end."""


def find_tail(folder: Path, keys: Keys, raw: bytes) -> Tail:
    """Find the end of the chain; `raw` is the content of the head's file.

    If the head and the files do not match, the result contains a reason to start a new segment, so no receipt is lost.
    The chain then continues after the last record that the head counts or, without a valid head, after the last line of
    the newest segment. `verify` reports the problem.

    Raises:
        OSError: a file cannot be read.
    """
    if not raw.strip(b" \n\0"):
        known = list_segments(folder)
        return (
            _find_tail_without_head(folder, known, "head-missing") if known else Tail(Head(0, 0, 0, GENESIS), "first")
        )
    head = read_head(keys, raw)
    if head is None:
        reason = "head-changed" if has_key_id(raw, keys) else "other-key"
        return _find_tail_without_head(folder, list_segments(folder), reason)
    try:
        with open_file(segment_path(folder, head.segment), follow_link=False) as (file, status):
            if status.st_size < head.size:
                return Tail(head, "truncated")
            file.seek(head.size)
            return _count_extra_lines(head, keys, file.read(_MAX_EXTRA_BYTES))
    except FileNotFoundError:
        return Tail(head, "segment-missing" if head.size else "")


def _count_extra_lines(head: Head, keys: Keys, extra: bytes) -> Tail:
    """Advance the head past lines that a process wrote, but did not count in the head before it was killed."""
    if len(extra) == _MAX_EXTRA_BYTES:
        return Tail(head, "foreign-lines")
    *lines, torn = extra.split(b"\n")
    for text in lines:
        line = split_line(text + b"\n")
        if line is None or not line.follows(keys, head.hash):
            return Tail(head, "foreign-lines")
        head = Head(head.number + 1, head.segment, head.size + len(text) + 1, line.hash)
    return Tail(head, "foreign-lines" if len(torn) > MAX_LINE_BYTES else "", torn)


def _find_tail_without_head(folder: Path, known: list[int], reason: str) -> Tail:
    """Continue after the last line of the newest segment.

    That line is not verified here. If it was changed, `verify` finds a break there, because the hash of the new
    segment's first record depends on the line.
    """
    if not known:
        return Tail(Head(0, 0, 0, GENESIS), reason)
    with open_file(segment_path(folder, known[-1]), follow_link=False) as (file, status):
        file.seek(max(0, status.st_size - 2 * MAX_LINE_BYTES))
        lines = file.read(2 * MAX_LINE_BYTES).split(b"\n")[:-1]
    last = next((line for text in reversed(lines) if (line := split_line(text + b"\n"))), Line(b"", GENESIS))
    return Tail(Head(last.number, known[-1], status.st_size, last.hash), reason)
