"""Verify the chains of receipts in a folder offline, and report the first break."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_RECEIPT_CHAINS
from wasmrt.runtime.audit._chain import Keys, Link
from wasmrt.runtime.audit._check import Break, BreakKind, ChainCheck, ChainHead
from wasmrt.runtime.audit._files import CHAINS, Cut, chain_folder, chains, current_head, reading, segment_path

__all__ = [
    "Break",
    "BreakKind",
    "ChainHead",
    "Verification",
    "chain_heads",
    "format_heads",
    "parse_first_segments",
    "parse_heads",
    "verify",
]

_NOTED = re.compile(r"(?:([0-9]{1,4})/)?([0-9]{1,19}):([0-9a-f]{64})\Z")
_FIRST = re.compile(r"(?:([0-9]{1,4})/)?([1-9][0-9]{0,11})\Z")


class Verification(NamedTuple):
    """The result of verifying the chains of a folder; they are intact if `broken` is None."""

    records: int
    """Number of verified records before the break."""
    segments: int
    chains: int
    """Number of chains that have segments."""
    broken: Break | None
    notes: tuple[str, ...] = ()
    """Observations that are not breaks, as sentences."""
    cuts: tuple[Cut, ...] = ()
    """Segments before which receipts may be missing, and that no operator has acknowledged."""

    def as_dict(self) -> dict[str, object]:
        """Return the result of the verification as JSON data."""
        return {
            "ok": self.broken is None,
            "records": self.records,
            "segments": self.segments,
            "chains": self.chains,
            "broken": None if self.broken is None else self.broken.as_dict(),
            "notes": list(self.notes),
            "possible_cuts": [{"chain": cut.chain, "segment": cut.segment} for cut in self.cuts],
        }


def verify(
    folder: Path,
    keys: Keys,
    *,
    expected: tuple[ChainHead, ...] = (),
    first: dict[int, int] | None = None,
) -> Verification:
    """Verify every record and link of the chains in `folder`; a chain with a running writer is verified up to its head.

    `expected` are heads that were stored earlier; the chains must contain the records to which they refer. `first` is
    the oldest segment of each chain that must exist, by default 1, because operators may remove older segments.

    Raises:
        ConfigurationError: a file cannot be read, or is not a regular file; links are not followed.
    """
    with reading():
        return _FolderCheck(folder, keys, {head.chain: head for head in expected}, first or {}).run()


def chain_heads(folder: Path, keys: Keys) -> tuple[ChainHead, ...]:
    """Return the current heads of the chains, without heads that were not written with these keys.

    Raises:
        ConfigurationError: a head cannot be read.
    """
    with reading():
        found = [
            (chain, current_head(chain_folder(folder, chain), keys.derive_chain_keys(chain)))
            for chain in chains(folder)
        ]
    return tuple(ChainHead(chain, head.number, head.hash.hex()) for chain, head in found if head is not None)


def format_heads(heads: tuple[ChainHead, ...]) -> str:
    """Return the text form of heads, `NUMBER:HASH,CHAIN/NUMBER:HASH,...`."""
    return ",".join(map(str, heads))


def parse_heads(text: str) -> tuple[ChainHead, ...]:
    """Parse the text form of heads.

    Raises:
        ConfigurationError: the text does not have this form.
    """
    found = [_NOTED.match(part) for part in text.split(",", MAX_RECEIPT_CHAINS)]
    heads = tuple(ChainHead(int(each[1] or 0), int(each[2]), each[3]) for each in found if each)
    if len({head.chain for head in heads}) < len(found):
        raise ConfigurationError("this is not a chain head", hint="pass the output of `wasmrt advanced audit-head`")
    return heads


def parse_first_segments(text: str) -> dict[int, int]:
    """Parse the first segments of chains, `SEGMENT,CHAIN/SEGMENT,...`.

    Raises:
        ConfigurationError: the text does not have this form.
    """
    found = [_FIRST.match(part) for part in text.split(",", MAX_RECEIPT_CHAINS)]
    first = {int(each[1] or 0): int(each[2]) for each in found if each}
    if len(first) < len(found):
        raise ConfigurationError(
            f"{text!r:.80} does not name segments",
            hint="pass a number from 1, or CHAIN/SEGMENT for other chains: 3,1/2",
        )
    return first


class _FolderCheck:
    def __init__(self, folder: Path, keys: Keys, expected: dict[int, ChainHead], first: dict[int, int]) -> None:
        self._folder = folder
        self._expected = expected
        self._first = first
        before = {
            chain: current_head(chain_folder(folder, chain), keys.derive_chain_keys(chain)) for chain in chains(folder)
        }
        self._checks = {
            chain: ChainCheck(
                folder, chain, keys, self._expected.get(chain), self._first.get(chain, 1), before.get(chain)
            )
            for chain in chains(folder)
        }
        self._missing: Break | None = None
        """The first link to a chain that is missing or was rolled back."""
        self._last_links: dict[int, Link] = {}

    def run(self) -> Verification:
        checks = self._checks.values()
        acknowledged: dict[str, str] = {}
        for check in checks:
            check.run(self._check_link)
            acknowledged |= check.acknowledged
        notes = [note for check in checks for note in check.notes]
        cuts = {cut: reason for check in checks for cut, reason in check.cuts.items()}
        for cut in [cut for cut in cuts if cut.opening in acknowledged]:
            notes.append(f"{cuts.pop(cut)}: acknowledged by {acknowledged[cut.opening]}")
        broken = next((check.broken for check in checks if check.broken), None)
        return Verification(
            sum(check.records for check in checks),
            sum(check.segments for check in checks),
            sum(check.segments > 0 for check in checks),
            broken or self._find_missing_chain() or self._missing or self._describe_cut(cuts),
            tuple(notes),
            tuple(cuts),
        )

    def _find_missing_chain(self) -> Break | None:
        """Return a break if an expected chain is missing, or if there is a gap in the numbers of the chains."""
        missing = {*self._expected, *range(max(self._checks))} - {*self._checks}
        return self._describe_missing(min(missing), "") if missing else None

    def _describe_missing(self, chain: int, named: str) -> Break:
        return Break(BreakKind.MISSING_CHAIN, f"{CHAINS}/{chain:04d}", 0, f"chain {chain} is missing{named}")

    def _check_link(self, link: Link, file: str, line: int) -> None:
        """Check that the linked chain has the record at the position where the other writer saw it."""
        if self._missing or self._last_links.get(link.chain) == link or link.segment < self._first.get(link.chain, 1):
            return
        self._last_links[link.chain] = link
        named = f"{file}, line {line} names its record {link.number}"
        target = self._checks.get(link.chain)
        if target is None:
            self._missing = self._describe_missing(link.chain, f": {named}")
            return
        path = segment_path(chain_folder(self._folder, link.chain), link.segment)
        if not target.contains(link):
            message = f"chain {link.chain} was rolled back or cut: {named}, which it does not contain"
            self._missing = Break(BreakKind.ROLLED_BACK, str(path.relative_to(self._folder)), 0, message)

    def _describe_cut(self, cuts: dict[Cut, str]) -> Break | None:
        for cut, reason in cuts.items():
            path = segment_path(chain_folder(self._folder, cut.chain), cut.segment)
            message = f"{reason}; earlier receipts may be missing"
            return Break(BreakKind.POSSIBLE_CUT, str(path.relative_to(self._folder)), 1, message)
        return None
