"""Checks a chain of receipts, offline, and names the first link that does not hold."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import opened_file
from wasmrt.runtime.audit._chain import (
    GENESIS,
    HEAD_BYTES,
    HEAD_FILE,
    MAX_LINE_BYTES,
    Head,
    Keys,
    Line,
    names_key,
    read_head,
    reading,
    segment_path,
    segments,
    split_line,
)

_NOTED = re.compile(r"([0-9]{1,19}):([0-9a-f]{64})\Z")
_HASH = re.compile(r"[0-9a-f]{64}\Z")
_WHY = {
    "head-missing": "the head was missing when segment {0} was begun; receipts before it may have been cut off",
    "head-changed": "the head had been changed when segment {0} was begun; receipts before it may have been cut off",
    "other-key": "segment {0} was begun with another key than the segments before it",
    "truncated": "the segment before {0} was shorter than it should have been when segment {0} was begun",
    "segment-missing": "the segment before {0} was missing when segment {0} was begun",
    "foreign-lines": "there were lines of somebody else's behind the receipts when segment {0} was begun",
}


class BreakKind(StrEnum):
    """Ways in which a chain can be broken."""

    EDITED = "edited"
    REMOVED = "removed"
    SWAPPED = "swapped"
    INSERTED = "inserted"
    TRUNCATED = "truncated"
    MISSING_SEGMENT = "missing-segment"
    FOREIGN_KEY = "foreign-key"
    HEAD = "head"
    """The head is missing or not authentic, so that nobody can say whether the newest receipts are all there."""


class Break(NamedTuple):
    """The first link that does not hold."""

    kind: BreakKind
    file: str
    line: int
    """Counted from 1; 0 where the file as a whole is meant."""
    message: str

    def as_dict(self) -> dict[str, object]:
        """Return the break as JSON data."""
        return self._asdict() | {"kind": str(self.kind)}


class ChainHead(NamedTuple):
    """A head to be kept elsewhere: whoever changes the folder later cannot change it as well."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    @staticmethod
    def parse(text: str) -> ChainHead:
        """Read a head as it was printed.

        Raises:
            ConfigurationError: it is none.
        """
        found = _NOTED.match(text)
        if found is None:
            raise ConfigurationError("this is not the head of a chain", hint="pass what `wasmrt audit head` printed")
        return ChainHead(int(found[1]), found[2])


class Verification(NamedTuple):
    """The outcome of a check: the chain holds where `broken` is None."""

    records: int
    """Records that were checked, up to the break: receipts, and what begins a segment."""
    segments: int
    broken: Break | None
    notes: tuple[str, ...] = ()
    """Sentences about what is no break, and that a reader should know."""

    def as_dict(self) -> dict[str, object]:
        """Return the outcome as JSON data."""
        return {
            "ok": self.broken is None,
            "records": self.records,
            "segments": self.segments,
            "broken": None if self.broken is None else self.broken.as_dict(),
            "notes": list(self.notes),
        }


def verify(folder: Path, keys: Keys, *, expected: ChainHead | None = None, first: int = 1) -> Verification:
    """Check every link of the chain in `folder`, while others may go on writing to it.

    `expected` is a head that was noted before: its record has to be there. Segments before `first` were removed by the
    operator, and are not missed.

    Raises:
        ConfigurationError: a file cannot be read, or is none of ours, such as a link.
    """
    with reading():
        return _Check(folder, keys, expected, first).run()


def chain_head(folder: Path, keys: Keys) -> ChainHead | None:
    """Return the head of the chain, to be noted elsewhere; None where there is none that these keys have written.

    Raises:
        ConfigurationError: it cannot be read.
    """
    with reading():
        head = read_head(keys, _snapshot(folder)[0])
    return None if head is None else ChainHead(head.number, head.hash.hex())


def _snapshot(folder: Path) -> tuple[bytes, list[int], int]:
    """Return the head, the segments, and the size of the newest, all of one moment."""
    try:
        with opened_file(folder / HEAD_FILE, follow_link=False) as (file, _):
            fcntl.flock(file, fcntl.LOCK_SH)
            raw, known = file.read(HEAD_BYTES), segments(folder)
            return raw, known, _size(folder, known)
    except (FileNotFoundError, NotADirectoryError):
        known = segments(folder)
        return b"", known, _size(folder, known)


def _size(folder: Path, known: list[int]) -> int:
    return segment_path(folder, known[-1]).stat().st_size if known else 0


class _Broken(Exception):  # noqa: N818 - it ends a check, and is no error
    def __init__(self, found: Break) -> None:
        super().__init__(found.message)
        self.found = found


class _Check:
    """One check, from the first segment to the head."""

    def __init__(self, folder: Path, keys: Keys, expected: ChainHead | None, first: int) -> None:
        self._folder = folder
        self._keys = keys
        self._expected = expected
        self._first = first
        self._raw, self._known, self._newest_bytes = _snapshot(folder)
        self._number, self._hash = 0, GENESIS
        self._last = ("", 0)
        """File and line of the record before."""
        self._notes: list[str] = []
        self._checked = 0
        self._segments = 0
        self._seen = expected is None

    def run(self) -> Verification:
        try:
            for segment in self._in_order():
                self._segment(segment)
                self._segments += 1
            self._head()
        except _Broken as broken:
            return self._outcome(broken.found)
        return self._outcome(None)

    def _outcome(self, broken: Break | None) -> Verification:
        return Verification(self._checked, self._segments, broken, tuple(self._notes))

    def _in_order(self) -> Iterator[int]:
        wanted = self._first
        for segment in [each for each in self._known if each >= self._first]:
            if segment != wanted:
                self._missing(wanted)
            wanted += 1
            yield segment

    def _missing(self, segment: int) -> None:
        path = segment_path(self._folder, segment)
        raise _Broken(Break(BreakKind.MISSING_SEGMENT, path.name, 0, f"segment {segment} is missing"))

    # -- one segment -----------------------------------------------------------------------------------------------

    def _segment(self, segment: int) -> None:
        path = segment_path(self._folder, segment)
        newest = self._newest_bytes if segment == self._known[-1] else None
        with opened_file(path, follow_link=False) as (file, status):
            size = status.st_size if newest is None else min(newest, status.st_size)
            at = 0
            while at < size:
                text = file.readline(min(MAX_LINE_BYTES, size - at))
                at += len(text)
                place = (path.name, self._last[1] + 1 if self._last[0] == path.name else 1)
                if not text.endswith(b"\n") and at >= size:
                    self._unfinished(text, place, torn=newest is not None and self._behind_head(segment, at))
                    return
                line = split_line(text)
                if place[1] == 1:
                    self._check_opening(segment, line, place)
                if line is None or not line.follows(self._keys, self._hash):
                    raise _Broken(self._named(file, line, place))
                self._take(line, place)

    def _unfinished(self, text: bytes, place: tuple[str, int], *, torn: bool) -> None:
        """Tell a line that a crash never finished from one that was cut off later."""
        if not torn:
            message = f"the file ends in the middle of record {self._number + 1}"
            raise _Broken(Break(BreakKind.TRUNCATED, *place, message))
        self._notes.append(
            f"{place[0]}, line {place[1]} was never finished, by a process that was killed or a power cut: "
            f"{len(text)} bytes, which the next receipt puts aside"
        )

    def _behind_head(self, segment: int, end: int) -> bool:
        """Tell whether bytes up to `end` are behind all that the head counts, so that no receipt is in them."""
        head = read_head(self._keys, self._raw)
        return head is not None and (segment, end) > (head.segment, head.size)

    def _take(self, line: Line, place: tuple[str, int]) -> None:
        self._number = line.number
        self._hash = line.hash
        self._last = place
        self._checked += 1
        if line.body.startswith(b'"type":"torn"', line.body.find(b",") + 1):
            self._notes.append(f"{place[0]}, line {place[1]} keeps a line that was never finished")
        if self._expected is not None and self._number == self._expected.number:
            self._seen = True
            if line.hash.hex() != self._expected.hash:
                message = f"record {self._number} is not the one whose hash was noted: the chain was written anew"
                raise _Broken(Break(BreakKind.HEAD, *place, message))

    def _check_opening(self, segment: int, line: Line | None, place: tuple[str, int]) -> None:
        """Check what begins a segment, and tell a cut in the segment before from a change in this one."""
        record = {} if line is None else line.record()
        key, previous = record.get("key"), str(record.get("previous"))
        if line is None or record.get("segment") != segment or not _HASH.match(previous):
            message = f"the record that begins segment {segment} was changed"
            raise _Broken(Break(BreakKind.EDITED, *place, message))
        if key != self._keys.id:
            message = f"segment {segment} was written with another key ({str(key)[:16]!r}, not {self._keys.id!r})"
            raise _Broken(Break(BreakKind.FOREIGN_KEY, *place, message))
        if record.get("why") in _WHY:
            self._notes.append(_WHY[str(record["why"])].format(segment))
        if segment == self._first and segment > 1:
            self._hash, self._number = bytes.fromhex(previous), line.number - 1
        if self._hash.hex() != previous and line.follows(self._keys, bytes.fromhex(previous)):
            lost = line.number - self._number - 1
            message = (
                f"{lost} records at its end are missing" if lost > 0 else "it does not lead to the segment behind it"
            )
            kind = BreakKind.TRUNCATED if lost > 0 else BreakKind.HEAD
            raise _Broken(Break(kind, self._last[0], self._last[1] + 1, message))

    def _named(self, file: BinaryIO, line: Line | None, place: tuple[str, int]) -> Break:
        """Find out what happened to a line that does not follow the one before."""
        wanted, number = self._number + 1, 0 if line is None else line.number
        if number > wanted:
            rest = iter(lambda: file.readline(MAX_LINE_BYTES), b"")
            if any((later := split_line(text)) and later.number == wanted for text in rest):
                return Break(BreakKind.SWAPPED, *place, f"record {number} stands where record {wanted} should")
            count = number - wanted
            what = f"record {wanted} is" if count == 1 else f"{count} records from number {wanted} on are"
            return Break(BreakKind.REMOVED, *place, f"{what} missing in front of this line")
        if 0 < number < wanted:
            return Break(BreakKind.INSERTED, *place, f"record {number} stands here once more, behind {wanted - 1}")
        return Break(BreakKind.EDITED, *place, f"record {wanted} was changed")

    # -- the end ---------------------------------------------------------------------------------------------------

    def _head(self) -> None:
        """Compare the end of the chain with the head, and with one that was noted elsewhere."""
        head = read_head(self._keys, self._raw)
        if head is None:
            self._headless()
        else:
            self._compare(head)
        if not self._seen and self._expected is not None:
            message = f"the chain ends at record {self._number}, and record {self._expected.number} was noted"
            raise _Broken(Break(BreakKind.TRUNCATED, self._last[0] or HEAD_FILE, self._last[1] + 1, message))

    def _headless(self) -> None:
        if not self._known:
            return
        if not self._raw.strip(b" \n\0"):
            message = "the head is missing: nobody can say whether the newest receipts are all here"
            raise _Broken(Break(BreakKind.HEAD, HEAD_FILE, 0, message))
        if not names_key(self._raw, self._keys):
            raise _Broken(Break(BreakKind.FOREIGN_KEY, HEAD_FILE, 0, "the head was written with another key"))
        raise _Broken(Break(BreakKind.EDITED, HEAD_FILE, 0, "the head was changed"))

    def _compare(self, head: Head) -> None:
        if head.number > self._number:
            newest = segment_path(self._folder, head.segment)
            if head.size and head.segment not in self._known:
                self._missing(head.segment)
            lost = head.number - self._number
            message = f"the newest {lost} records are missing: the head counts {head.number}"
            line = self._last[1] + 1 if self._last[0] == newest.name else 1
            raise _Broken(Break(BreakKind.TRUNCATED, newest.name, line, message))
        if head.number == self._number and head.hash != self._hash:
            raise _Broken(Break(BreakKind.HEAD, HEAD_FILE, 0, "the head is that of another chain"))
        if head.number + 1 < self._number:
            self._notes.append(
                f"the head counts {head.number} records and there are {self._number}: several processes were killed, "
                "or the head is an older one"
            )
