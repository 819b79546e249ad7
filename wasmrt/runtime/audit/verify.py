"""Verify a chain of receipts offline, and report the first break."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import open_file
from wasmrt.runtime.audit._chain import (
    GENESIS,
    HEAD_BYTES,
    HEAD_FILE,
    MAX_LINE_BYTES,
    Head,
    Keys,
    Line,
    has_key_id,
    read_head,
    reading,
    segment_path,
    segments,
    split_line,
)

_NOTED = re.compile(r"([0-9]{1,19}):([0-9a-f]{64})\Z")
_HASH = re.compile(r"[0-9a-f]{64}\Z")
_WHY = {
    "head-missing": "the head was missing when segment {0} was started",
    "head-changed": "the head had been changed when segment {0} was started",
    "other-key": "the head was unreadable, or written with a different key, when segment {0} was started",
    "records-missing": "records of a running process had disappeared when segment {0} was started",
    "truncated": "the segment before {0} was too short when segment {0} was started",
    "segment-missing": "the segment before {0} was missing when segment {0} was started",
    "foreign-lines": "there were invalid lines after the receipts when segment {0} was started",
}
"""Reasons to start a segment after which receipts may be missing before it."""


class BreakKind(StrEnum):
    """Kinds of breaks in a chain."""

    EDITED = "edited"
    REMOVED = "removed"
    SWAPPED = "swapped"
    INSERTED = "inserted"
    TRUNCATED = "truncated"
    MISSING_SEGMENT = "missing-segment"
    FOREIGN_KEY = "foreign-key"
    HEAD = "head"
    """The head is missing or not authentic, so receipts may be missing at the end."""
    POSSIBLE_CUT = "possible-cut"
    """Receipts may be missing before a segment, and no operator has acknowledged it."""


class Break(NamedTuple):
    """The first break in a chain."""

    kind: BreakKind
    file: str
    line: int
    """Line number from 1; 0 for the whole file."""
    message: str

    def as_dict(self) -> dict[str, object]:
        """Return the break as JSON data."""
        return self._asdict() | {"kind": str(self.kind)}


class ChainHead(NamedTuple):
    """The end of a receipt chain, in the form in which operators store it outside of the receipts folder.

    A person who can change the receipts folder must not be able to change the stored head.
    """

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    @staticmethod
    def parse(text: str) -> ChainHead:
        """Parse the text form of a head, `NUMBER:HASH`.

        Raises:
            ConfigurationError: the text does not have this form.
        """
        found = _NOTED.match(text)
        if found is None:
            raise ConfigurationError("this is not a chain head", hint="pass the output of `wasmrt advanced audit-head`")
        return ChainHead(int(found[1]), found[2])


class Verification(NamedTuple):
    """The result of verifying a chain; it is intact if `broken` is None."""

    records: int
    """Number of verified records before the break: receipts and segment starts."""
    segments: int
    broken: Break | None
    notes: tuple[str, ...] = ()
    """Observations that are not breaks, as sentences."""
    cuts: tuple[int, ...] = ()
    """Segments before which receipts may be missing, and that no operator has acknowledged."""

    def as_dict(self) -> dict[str, object]:
        """Return the result of the verification as JSON data."""
        return {
            "ok": self.broken is None,
            "records": self.records,
            "segments": self.segments,
            "broken": None if self.broken is None else self.broken.as_dict(),
            "notes": list(self.notes),
            "possible_cuts": list(self.cuts),
        }


def verify(folder: Path, keys: Keys, *, expected: ChainHead | None = None, first: int = 1) -> Verification:
    """Verify every link of the chain in `folder`; other processes may continue to write to it.

    `expected` is a head that was stored earlier; the chain must contain the record to which that head refers. `first`
    is the oldest segment that must exist, because operators may remove older segments.

    Raises:
        ConfigurationError: a file cannot be read, or is not a regular file; links are not followed.
    """
    with reading():
        return _Check(folder, keys, expected, first).run()


def chain_head(folder: Path, keys: Keys) -> ChainHead | None:
    """Return the current head of the chain, or None if there is no head that was written with these keys.

    Raises:
        ConfigurationError: the head cannot be read.
    """
    with reading():
        head = read_head(keys, _snapshot(folder)[0])
    return None if head is None else ChainHead(head.number, head.hash.hex())


def _snapshot(folder: Path) -> tuple[bytes, list[int], int]:
    """Return the head, the segments, and the size of the newest segment, all read under the head's lock."""
    try:
        with open_file(folder / HEAD_FILE, follow_link=False) as (file, _):
            fcntl.flock(file, fcntl.LOCK_SH)
            raw, known = file.read(HEAD_BYTES), segments(folder)
            return raw, known, _size(folder, known)
    except (FileNotFoundError, NotADirectoryError):
        known = segments(folder)
        return b"", known, _size(folder, known)


def _size(folder: Path, known: list[int]) -> int:
    return segment_path(folder, known[-1]).stat().st_size if known else 0


class _BreakError(Exception):
    def __init__(self, found: Break) -> None:
        super().__init__(found.message)
        self.found = found


class _Check:
    """One verification, from the first segment to the head."""

    def __init__(self, folder: Path, keys: Keys, expected: ChainHead | None, first: int) -> None:
        self._folder = folder
        self._keys = keys
        self._expected = expected
        self._first = first
        self._raw, self._known, self._newest_bytes = _snapshot(folder)
        self._number, self._hash = 0, GENESIS
        self._last = ("", 0)
        """File and line of the previous record."""
        self._notes: list[str] = []
        self._cuts: dict[int, str] = {}
        """Segments before which receipts may be missing, with the reason, until a record acknowledges it."""
        self._checked = 0
        self._segments = 0
        self._seen = expected is None

    def run(self) -> Verification:
        try:
            for segment in self._segments_in_order():
                self._check_segment(segment)
                self._segments += 1
            self._check_head()
            self._check_cuts()
        except _BreakError as broken:
            return self._outcome(broken.found)
        return self._outcome(None)

    def _outcome(self, broken: Break | None) -> Verification:
        return Verification(self._checked, self._segments, broken, tuple(self._notes), tuple(self._cuts))

    def _segments_in_order(self) -> Iterator[int]:
        wanted = self._first
        for segment in [each for each in self._known if each >= self._first]:
            if segment != wanted:
                self._raise_missing(wanted)
            wanted += 1
            yield segment

    def _raise_missing(self, segment: int) -> None:
        path = segment_path(self._folder, segment)
        raise _BreakError(Break(BreakKind.MISSING_SEGMENT, path.name, 0, f"segment {segment} is missing"))

    # -- one segment -----------------------------------------------------------------------------------------------

    def _check_segment(self, segment: int) -> None:
        path = segment_path(self._folder, segment)
        newest = self._newest_bytes if segment == self._known[-1] else None
        with open_file(path, follow_link=False) as (file, status):
            size = status.st_size if newest is None else min(newest, status.st_size)
            at = 0
            while at < size:
                text = file.readline(min(MAX_LINE_BYTES, size - at))
                at += len(text)
                place = (path.name, self._last[1] + 1 if self._last[0] == path.name else 1)
                if not text.endswith(b"\n") and at >= size:
                    self._check_unfinished(text, place, torn=newest is not None and self._is_after_head(segment, at))
                    return
                line = split_line(text)
                if place[1] == 1:
                    self._check_opening(segment, line, place)
                if line is None or not line.follows(self._keys, self._hash):
                    raise _BreakError(self._describe_break(file, line, place))
                self._accept(line, place)

    def _check_unfinished(self, text: bytes, place: tuple[str, int], *, torn: bool) -> None:
        """Note a line that a killed process left incomplete; raise an error for a line that was cut off later."""
        if not torn:
            message = f"the file ends in the middle of record {self._number + 1}"
            raise _BreakError(Break(BreakKind.TRUNCATED, *place, message))
        self._notes.append(
            f"{place[0]}, line {place[1]} is incomplete, after a killed process or a power cut: "
            f"{len(text)} bytes, which the next receipt moves into a separate record"
        )

    def _is_after_head(self, segment: int, end: int) -> bool:
        """Return whether `end` is beyond the end of the chain that the head stores: no counted record ends there."""
        head = read_head(self._keys, self._raw)
        return head is not None and (segment, end) > (head.segment, head.size)

    def _accept(self, line: Line, place: tuple[str, int]) -> None:
        self._number = line.number
        self._hash = line.hash
        self._last = place
        self._checked += 1
        if line.is_of_type("torn"):
            self._notes.append(f"{place[0]}, line {place[1]} records an incomplete line")
        elif line.is_of_type("acknowledged"):
            self._acknowledge(line.record())
        if self._expected is not None and self._number == self._expected.number:
            self._seen = True
            if line.hash.hex() != self._expected.hash:
                message = f"record {self._number} does not have the expected hash: the chain was rewritten"
                raise _BreakError(Break(BreakKind.HEAD, *place, message))

    def _check_opening(self, segment: int, line: Line | None, place: tuple[str, int]) -> None:
        """Check the first record of a segment. Distinguish a change of this record from missing records before it."""
        record = {} if line is None else line.record()
        key, previous = record.get("key"), str(record.get("previous"))
        if line is None or record.get("segment") != segment or not _HASH.match(previous):
            message = f"the first record of segment {segment} was changed"
            raise _BreakError(Break(BreakKind.EDITED, *place, message))
        if key != self._keys.id:
            message = f"segment {segment} was written with key {str(key)[:16]!r}, expected {self._keys.id!r}"
            raise _BreakError(Break(BreakKind.FOREIGN_KEY, *place, message))
        if record.get("why") in _WHY:
            self._cuts[segment] = _WHY[str(record["why"])].format(segment)
        if segment == self._first and segment > 1:
            self._hash, self._number = bytes.fromhex(previous), line.number - 1
        if self._hash.hex() != previous and line.follows(self._keys, bytes.fromhex(previous)):
            lost = line.number - self._number - 1
            message = f"{lost} records at the end are missing" if lost > 0 else "the next segment does not continue it"
            kind = BreakKind.TRUNCATED if lost > 0 else BreakKind.HEAD
            raise _BreakError(Break(kind, self._last[0], self._last[1] + 1, message))

    def _describe_break(self, file: BinaryIO, line: Line | None, place: tuple[str, int]) -> Break:
        """Determine what happened to a line that does not follow the previous one."""
        wanted, number = self._number + 1, 0 if line is None else line.number
        if number > wanted:
            rest = iter(lambda: file.readline(MAX_LINE_BYTES), b"")
            if any((later := split_line(text)) and later.number == wanted for text in rest):
                return Break(BreakKind.SWAPPED, *place, f"expected record {wanted}, got record {number}")
            count = number - wanted
            what = f"record {wanted} is" if count == 1 else f"{count} records, starting with {wanted}, are"
            return Break(BreakKind.REMOVED, *place, f"{what} missing before this line")
        if 0 < number < wanted:
            return Break(BreakKind.INSERTED, *place, f"record {number} is repeated after record {wanted - 1}")
        return Break(BreakKind.EDITED, *place, f"record {wanted} was changed")

    # -- possible cuts ---------------------------------------------------------------------------------------------

    def _acknowledge(self, record: dict[str, object]) -> None:
        segment = record.get("segment")
        cut = self._cuts.pop(segment, None) if isinstance(segment, int) else None
        if cut is not None:
            self._notes.append(f"{cut}: acknowledged by {record.get('by')}")

    def _check_cuts(self) -> None:
        """Report the first possible cut. If earlier segments were removed, the first one's reason is only noted."""
        first = self._cuts.pop(self._first, None) if self._first > 1 else None
        if first is not None:
            self._notes.append(first)
        for segment, cut in self._cuts.items():
            message = f"{cut}; earlier receipts may be missing"
            raise _BreakError(Break(BreakKind.POSSIBLE_CUT, segment_path(self._folder, segment).name, 1, message))

    # -- the end ---------------------------------------------------------------------------------------------------

    def _check_head(self) -> None:
        """Compare the end of the chain with the head and with the expected head."""
        head = read_head(self._keys, self._raw)
        if head is None:
            self._check_without_head()
        else:
            self._compare_head(head)
        if not self._seen and self._expected is not None:
            message = f"the chain ends at record {self._number}, expected record {self._expected.number}"
            raise _BreakError(Break(BreakKind.TRUNCATED, self._last[0] or HEAD_FILE, self._last[1] + 1, message))

    def _check_without_head(self) -> None:
        if not self._known:
            return
        if not self._raw.strip(b" \n\0"):
            message = "the head is missing, so receipts may be missing at the end"
            raise _BreakError(Break(BreakKind.HEAD, HEAD_FILE, 0, message))
        if not has_key_id(self._raw, self._keys):
            raise _BreakError(Break(BreakKind.FOREIGN_KEY, HEAD_FILE, 0, "the head was written with a different key"))
        raise _BreakError(Break(BreakKind.EDITED, HEAD_FILE, 0, "the head was changed"))

    def _compare_head(self, head: Head) -> None:
        if head.number > self._number:
            newest = segment_path(self._folder, head.segment)
            if head.size and head.segment not in self._known:
                self._raise_missing(head.segment)
            lost = head.number - self._number
            message = f"the newest {lost} records are missing: the head counts {head.number} records"
            line = self._last[1] + 1 if self._last[0] == newest.name else 1
            raise _BreakError(Break(BreakKind.TRUNCATED, newest.name, line, message))
        if head.number == self._number and head.hash != self._hash:
            raise _BreakError(Break(BreakKind.HEAD, HEAD_FILE, 0, "the head belongs to a different chain"))
        if head.number + 1 < self._number:
            self._notes.append(
                f"the head counts {head.number} records, but there are {self._number}: several processes were killed, "
                "or the head is an older copy"
            )
