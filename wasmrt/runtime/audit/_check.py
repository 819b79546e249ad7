"""Check one chain of receipts, and find its first break."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wasmrt.core.files import open_file
from wasmrt.runtime.audit._chain import GENESIS, TAIL_BYTES, Head, Keys, Line, Link, has_key_id, read_links, split_line
from wasmrt.runtime.audit._files import (
    HEAD_FILE,
    MAX_LINE_BYTES,
    Cut,
    chain_folder,
    segment_path,
    take_snapshot,
)

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
"""For each reason to start a segment which means that receipts before the segment may be missing: its text."""


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
    MISSING_CHAIN = "missing-chain"
    ROLLED_BACK = "rolled-back"
    """A chain is shorter than another chain recorded, or has other records."""
    UNLINKED = "unlinked"
    """A chain does not begin with a record of the other chains' heads."""
    POSSIBLE_CUT = "possible-cut"
    """Receipts may be missing before a segment, and no operator has acknowledged it."""


class Break(NamedTuple):
    """A break in a chain."""

    kind: BreakKind
    file: str
    """Path in the folder of the receipts."""
    line: int
    """Line number from 1; 0 for the whole file."""
    message: str

    def as_dict(self) -> dict[str, object]:
        """Return the break as JSON data."""
        return self._asdict() | {"kind": str(self.kind)}


class ChainHead(NamedTuple):
    """The end of a chain, in the form in which operators store it outside of the receipts folder.

    A person who can change the receipts folder must not be able to change the stored head.
    """

    chain: int
    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.chain}/{self.number}:{self.hash}" if self.chain else f"{self.number}:{self.hash}"


class BreakError(Exception):
    """Ends a check at its first break."""

    def __init__(self, found: Break) -> None:
        super().__init__(found.message)
        self.found = found


class ChainCheck:
    """One check of a chain, from its first segment to the head."""

    def __init__(
        self, folder: Path, chain: int, keys: Keys, expected: ChainHead | None, first: int, before: Head | None
    ) -> None:
        self._top = folder
        self._folder = chain_folder(folder, chain)
        self._chain = chain
        self._keys = keys.derive_chain_keys(chain)
        self._expected = expected
        self._first = first
        self._head_name = self._get_relative_name(self._folder / HEAD_FILE)
        self._found = take_snapshot(self._folder, self._keys)
        self._links_end = None if before == self._found.head else before.number if before else 0
        """The last record whose links are checked: later records may refer to records beyond the other chains'
        snapshots.
        """
        self._number, self._hash = 0, GENESIS
        self._last = ("", 0)
        """File and line of the previous record."""
        self._linked = first > 1 or not chain
        self._seen = expected is None
        self.notes: list[str] = []
        self.cuts: dict[Cut, str] = {}
        """Possible cuts that this chain does not acknowledge, each with the reason for it."""
        self.acknowledged: dict[str, str] = {}
        """The operators who acknowledged cuts of any chain, by the hash of the segment's first record."""
        self.records = self.segments = 0
        self.broken: Break | None = None

    def run(self, link: Callable[[Link, str, int], None]) -> None:
        """Check the chain, and pass each link to another chain to `link`, with its file and line."""
        self._link = link
        try:
            for segment in self._iter_segments():
                self._check_segment(segment)
                self.segments += 1
            self._check_head()
        except BreakError as broken:
            self.broken = broken.found
        first = next((cut for cut in self.cuts if cut.segment == self._first > 1), None)
        if first is not None:  # earlier segments were removed
            self.notes.append(self.cuts.pop(first))

    def contains(self, link: Link) -> bool:
        """Return whether the chain has the linked record at its position."""
        if not self._found.known or (link.segment, link.size) > (self._found.known[-1], self._found.newest_bytes):
            return False
        try:
            with open_file(segment_path(self._folder, link.segment), follow_link=False) as (file, _):
                file.seek(max(0, link.size - TAIL_BYTES))
                line = split_line(file.read(min(TAIL_BYTES, link.size)))
        except FileNotFoundError:
            return False
        return line is not None and line.hash.hex() == link.hash

    def _get_relative_name(self, path: Path) -> str:
        return str(path.relative_to(self._top))

    def _iter_segments(self) -> Iterator[int]:
        wanted = self._first
        for segment in [each for each in self._found.known if each >= self._first]:
            if segment != wanted:
                self._raise_missing(wanted)
            wanted += 1
            yield segment

    def _raise_missing(self, segment: int) -> None:
        path = segment_path(self._folder, segment)
        raise BreakError(
            Break(BreakKind.MISSING_SEGMENT, self._get_relative_name(path), 0, f"segment {segment} is missing")
        )

    # -- one segment -----------------------------------------------------------------------------------------------

    def _check_segment(self, segment: int) -> None:
        path = segment_path(self._folder, segment)
        name = self._get_relative_name(path)
        newest = self._found.newest_bytes if segment == self._found.known[-1] else None
        with open_file(path, follow_link=False) as (file, status):
            size = status.st_size if newest is None else min(newest, status.st_size)
            at = 0
            while at < size:
                text = file.readline(min(MAX_LINE_BYTES, size - at))
                at += len(text)
                place = (name, self._last[1] + 1 if self._last[0] == name else 1)
                if not text.endswith(b"\n") and at >= size:
                    self._check_unfinished(text, place, torn=newest is not None and self._is_after_head(segment, at))
                    return
                line = split_line(text)
                if place[1] == 1:
                    self._check_opening(segment, line, place)
                if line is None or not line.follows(self._keys, self._hash):
                    raise BreakError(self._describe_break(file, line, place))
                self._accept(line, place)

    def _check_unfinished(self, text: bytes, place: tuple[str, int], *, torn: bool) -> None:
        """Note a line that a killed process left incomplete; raise an error for a line that was cut off later."""
        if not torn:
            message = f"the file ends in the middle of record {self._number + 1}"
            raise BreakError(Break(BreakKind.TRUNCATED, *place, message))
        self.notes.append(
            f"{place[0]}, line {place[1]} is incomplete, after a killed process or a power cut: "
            f"{len(text)} bytes, which the next receipt moves into a separate record"
        )

    def _is_after_head(self, segment: int, end: int) -> bool:
        """Return whether `end` is beyond the end of the chain that the head stores: no counted record ends there."""
        head = self._found.head
        return head is not None and (segment, end) > (head.segment, head.size)

    def _accept(self, line: Line, place: tuple[str, int]) -> None:
        self._number = line.number
        self._hash = line.hash
        self._last = place
        self.records += 1
        if line.is_of_type("torn"):
            self.notes.append(f"{place[0]}, line {place[1]} records an incomplete line")
        elif line.is_of_type("acknowledged"):
            self._acknowledge(line.record())
        elif line.is_of_type("link"):
            self._linked = True
            self._check_links(line, place)
        elif not self._linked and not line.is_of_type("segment"):
            message = f"chain {self._chain} does not begin with the heads of the other chains"
            raise BreakError(Break(BreakKind.UNLINKED, *place, message))
        if self._expected is not None and self._number == self._expected.number:
            self._seen = True
            if line.hash.hex() != self._expected.hash:
                message = f"record {self._number} does not have the expected hash: the chain was rewritten"
                raise BreakError(Break(BreakKind.HEAD, *place, message))

    def _check_opening(self, segment: int, line: Line | None, place: tuple[str, int]) -> None:
        """Check the first record of a segment. Distinguish a change of this record from missing records before it."""
        record = {} if line is None else line.record()
        key, previous = record.get("key"), str(record.get("previous"))
        if line is None or record.get("segment") != segment or not _HASH.match(previous):
            message = f"the first record of segment {segment} was changed"
            raise BreakError(Break(BreakKind.EDITED, *place, message))
        if key != self._keys.id:
            message = f"segment {segment} was written with key {str(key)[:16]!r}, expected {self._keys.id!r}"
            raise BreakError(Break(BreakKind.FOREIGN_KEY, *place, message))
        if record.get("chain", 0) != self._chain:
            message = f"chain {self._chain} was replaced by chain {record['chain']!r:.20}"
            raise BreakError(Break(BreakKind.SWAPPED, *place, message))
        if record.get("why") in _WHY:
            cut = _WHY[str(record["why"])].format(segment)
            self.cuts[Cut(self._chain, segment, line.hash.hex())] = (
                f"chain {self._chain}: {cut}" if self._chain else cut
            )
        if segment == self._first and segment > 1:
            self._hash, self._number = bytes.fromhex(previous), line.number - 1
        if self._hash.hex() != previous and line.follows(self._keys, bytes.fromhex(previous)):
            lost = line.number - self._number - 1
            message = f"{lost} records at the end are missing" if lost > 0 else "the next segment does not continue it"
            kind = BreakKind.TRUNCATED if lost > 0 else BreakKind.HEAD
            raise BreakError(Break(kind, self._last[0], self._last[1] + 1, message))

    def _describe_break(self, file: BinaryIO, line: Line | None, place: tuple[str, int]) -> Break:
        """Return how the chain was broken at a line that does not follow the previous one."""
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

    # -- possible cuts and links -----------------------------------------------------------------------------------

    def _acknowledge(self, record: dict[str, object]) -> None:
        by = str(record.get("by"))
        if "opening" in record:
            self.acknowledged[str(record["opening"])] = by
        else:  # such records were in the chain of the cut
            for cut in [each for each in self.cuts if each.segment == record.get("segment")]:
                self.notes.append(f"{self.cuts.pop(cut)}: acknowledged by {by}")

    def _check_links(self, line: Line, place: tuple[str, int]) -> None:
        links = read_links(line.record())
        if links is None:
            raise BreakError(Break(BreakKind.EDITED, *place, "the links are invalid"))
        if self._links_end is None or self._number <= self._links_end:
            for link in links:
                self._link(link, *place)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _check_head(self) -> None:
        """Compare the end of the chain with the head and with the expected head."""
        head = self._found.head
        if head is None:
            self._check_without_head()
        else:
            self._compare_head(head)
        if head is not None and not head.sealed and not self._found.running:
            self.notes.append(f"{self._head_name} is not sealed: the writer was killed, or this is an older copy")
        if not self._seen and self._expected is not None:
            message = f"the chain ends at record {self._number}, expected record {self._expected.number}"
            raise BreakError(Break(BreakKind.TRUNCATED, self._last[0] or self._head_name, self._last[1] + 1, message))

    def _check_without_head(self) -> None:
        if not self._found.known:
            return
        if not self._found.raw.strip(b" \n\0"):
            message = "the head is missing, so receipts may be missing at the end"
            raise BreakError(Break(BreakKind.HEAD, self._head_name, 0, message))
        if not has_key_id(self._found.raw, self._keys):
            raise BreakError(
                Break(BreakKind.FOREIGN_KEY, self._head_name, 0, "the head was written with a different key")
            )
        raise BreakError(Break(BreakKind.EDITED, self._head_name, 0, "the head was changed"))

    def _compare_head(self, head: Head) -> None:
        if head.number > self._number:
            newest = segment_path(self._folder, head.segment)
            if head.size and head.segment not in self._found.known:
                self._raise_missing(head.segment)
            lost = head.number - self._number
            message = f"the newest {lost} records are missing: the head counts {head.number} records"
            line = self._last[1] + 1 if self._last[0] == self._get_relative_name(newest) else 1
            raise BreakError(Break(BreakKind.TRUNCATED, self._get_relative_name(newest), line, message))
        if head.number == self._number and head.hash != self._hash:
            raise BreakError(Break(BreakKind.HEAD, self._head_name, 0, "the head belongs to a different chain"))
        if head.number + 1 < self._number:
            self.notes.append(
                f"the head counts {head.number} records, but there are {self._number}: several processes were killed, "
                "or the head is an older copy"
            )
