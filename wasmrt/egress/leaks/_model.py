"""Values of the leak detector: matches, reports, actions, and the limits on the work of one scan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from wasmrt.core.limits import KIB, MIB


class Direction(StrEnum):
    """The direction of a text: out to the network, or in to the agent."""

    OUTWARD = "outward"
    INWARD = "inward"


class Action(StrEnum):
    """The treatment of a match, from the weakest to the strongest."""

    WARN = "warn"
    REDACT = "redact"
    BLOCK = "block"


class Severity(StrEnum):
    """The potential harm of a leak of this format."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


MAX_MATCH_BYTES = 16 * 1024
"""Maximum length of a rule's match."""

SECRET_RULE = "secret:"  # noqa: S105 - the prefix of a rule's name, not a secret
"""The prefix of the rule id for a watched secret. The secret's name follows the prefix."""

DECODE_LIMIT_RULE = "decode-limit-exceeded"
"""The rule id for content beyond the decode limits, in which a watched secret would not be found.

SECURITY: this rule blocks in both directions, so that unscanned content is withheld.
"""

SCAN_BUDGET_RULE = "scan-budget-exceeded"
"""The rule id for text with more candidates than the work budget allows. It was only searched for tokens."""

UNSCANNED_RULES = (SCAN_BUDGET_RULE, DECODE_LIMIT_RULE)


class LeakMatch(NamedTuple):
    """One detected secret. It has half-open offsets into the scanned text, but never the value itself."""

    rule: str
    start: int
    end: int
    severity: Severity
    action: Action
    certain: bool = False
    """True if a checksum matched, or the value is a watched secret."""
    where: str = "text"
    """`text`, or for a request `url`, `header:NAME` or `body`."""

    def as_dict(self) -> dict[str, Any]:
        """Return the match as JSON data."""
        return {
            "rule": self.rule,
            "start": self.start,
            "end": self.end,
            "severity": str(self.severity),
            "action": str(self.action),
            "certain": self.certain,
            "where": self.where,
        }

    def with_offsets(self, start: int, end: int) -> LeakMatch:
        """Return the match with other offsets."""
        return self._replace(start=start, end=end)


class LeakReport(NamedTuple):
    """All matches, sorted by place, with unscanned content last. `should_block` is True if any match blocks."""

    matches: tuple[LeakMatch, ...] = ()
    should_block: bool = False

    def __bool__(self) -> bool:
        return bool(self.matches)

    @property
    def unscanned(self) -> str | None:
        """The rule id for unscanned text; None if the whole text was scanned."""
        last = self.matches[-1].rule if self.matches else ""
        return last if last in UNSCANNED_RULES else None

    @property
    def secret(self) -> str | None:
        """The rule id of the first watched secret in the text; None if there is none."""
        return next((match.rule for match in self.matches if match.rule.startswith(SECRET_RULE)), None)

    def without_unopened(self) -> LeakReport:
        """Return the report without matches for content that could not be decoded."""
        return report_of([match for match in self.matches if match.rule != DECODE_LIMIT_RULE])

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {"should_block": self.should_block, "matches": [m.as_dict() for m in self.matches]}


CLEAN = LeakReport()


def report_of(matches: list[LeakMatch]) -> LeakReport:
    """Return a report with the matches sorted by place, with unscanned content last, and set `should_block`."""
    if not matches:
        return CLEAN
    ordered = tuple(sorted(matches, key=lambda m: (m.rule in UNSCANNED_RULES, m.where, m.start, -m.end, m.rule)))
    return LeakReport(ordered, any(m.action is Action.BLOCK for m in ordered))


def list_redactions(matches: tuple[LeakMatch, ...]) -> list[tuple[int, int, str]]:
    """Return `(start, end, replacement)` for every match except warnings, sorted by place.

    Adjacent and overlapping matches have one replacement, so that no part of a secret remains between them. The
    replacement names the rule of one match: certain matches come first, then longer ones.
    """
    spans: list[tuple[int, int, str]] = []
    best: tuple[bool, int] = (False, 0)
    for match in sorted(matches, key=lambda m: (m.start, m.end)):
        if match.action is Action.WARN:
            continue
        weight, mark = (match.certain, match.end - match.start), f"[REDACTED:{match.rule}]"
        if spans and match.start <= spans[-1][1]:
            start, end, chosen = spans[-1]
            if weight > best:
                best, chosen = weight, mark
            spans[-1] = (start, max(end, match.end), chosen)
        else:
            best = weight
            spans.append((match.start, match.end, mark))
    return spans


def cut_out(data: bytes, matches: tuple[LeakMatch, ...]) -> bytes:
    """Return `data` with every match replaced, except matches whose action is to warn."""
    parts: list[bytes] = []
    position = 0
    for start, end, mark in list_redactions(matches):
        parts += (data[position:start], mark.encode())
        position = end
    return b"".join((*parts, data[position:])) if parts else data


Check = Callable[[], None]
"""A function that is called throughout a scan. It ends the scan if it raises."""


def no_check() -> None:
    """Do nothing, so that a scan never ends early."""


MAX_NESTING = 5
MAX_DECODED_BYTES = 32 * MIB
"""Maximum number of decoded and decompressed bytes in one scan. It limits the cost of a decompression bomb."""
PIECE_BYTES = 64 * KIB
"""Bytes searched between two calls of a `Check`."""
_ESCAPE_BYTES = 32
"""The cost of one escape, in decoded bytes."""
_ATTEMPT_BYTES = 64
_LEAST_CLEAN_BYTES = 256
"""Content of fewer bytes is searched again each time, which takes less memory than recording it."""
_DECODED_FOR_A_BYTE = 4
"""Decoded bytes allowed for each byte of a large text. This number also covers an escape at every second byte."""


class DecodeBudget:
    """The bytes that a scan may still decode."""

    __slots__ = ("_beyond", "_clean", "_searched", "check", "clean_runs", "exceeded", "left")

    def __init__(self, left: int = MAX_DECODED_BYTES, check: Check = no_check) -> None:
        self.left = left
        self.check = check
        self.exceeded = False
        """True if some content was not decoded, because it was too large, too deeply nested or in an unknown format."""
        self._searched: set[bytes] = set()
        self._beyond: set[bytes] = set()
        self._clean: dict[tuple[bytes, bool], int] = {}
        self.clean_runs: defaultdict[int, set[bytes]] = defaultdict(set)
        """For each nesting, runs in which a search found nothing. Texts that differ in a few escapes often contain the
        same runs."""

    @classmethod
    def for_text(cls, size: int, check: Check) -> DecodeBudget:
        """Return the budget for a text of `size` bytes."""
        return cls(max(MAX_DECODED_BYTES, size * _DECODED_FOR_A_BYTE), check)

    def charge(self, size: int) -> bool:
        """Charge the budget for decoded bytes; return False if it is exhausted."""
        self.left -= size
        self.exceeded = self.exceeded or self.left < 0
        return self.left >= 0

    def record_searched(self, content: bytes) -> None:
        """Record that decoded content was searched, with everything in it down to the depth limit."""
        self._searched.add(_hash_content(content))

    def record_beyond(self, content: bytes) -> None:
        """Record decoded content at the depth limit, which is not searched unless the same content occurs elsewhere."""
        self._beyond.add(_hash_content(content))

    def record_clean(self, content: bytes, nesting: int, *, sound: bool) -> None:
        """Record that a search of decoded content, at the depth `nesting`, found nothing."""
        if len(content) >= _LEAST_CLEAN_BYTES:
            key = _hash_content(content), sound
            self._clean[key] = min(nesting, self._clean.get(key, nesting))

    def is_clean(self, content: bytes, nesting: int, *, sound: bool) -> bool:
        """Return whether the same content was already searched, at least as deeply, and nothing was found.

        Texts that differ in a few escapes often contain the same archives.
        """
        if len(content) < _LEAST_CLEAN_BYTES or not self._clean:
            return False
        return self._clean.get((_hash_content(content), sound), MAX_NESTING) <= nesting

    @property
    def complete(self) -> bool:
        """True if all content was searched. Only valid at the end of a scan."""
        return not self.exceeded and self._beyond <= self._searched

    def charge_attempt(self) -> bool:
        """Charge the budget for a place at which no stream begins; return False if it is exhausted."""
        self.check()
        return self.charge(_ATTEMPT_BYTES)

    def charge_escapes(self, count: int) -> bool:
        """Charge the budget for `count` escapes or bytes that may start an escape; return False if it is exhausted."""
        self.check()
        return self.charge(count * _ESCAPE_BYTES)


def _hash_content(content: bytes) -> bytes:
    from hashlib import blake2b  # takes a millisecond to import, and most texts contain nothing encoded

    return blake2b(content, digest_size=16).digest()


_FIRST_BYTES = 14_000_000
"""The work allowed for every text, in bytes that a rule reads. It suffices to apply all rules to the first 32 KiB, or
to reject over a thousand false positives."""
_BYTES_PER_BYTE = 3
_FALSE_POSITIVE_BYTES, _INSIDE_WORD_BYTES = 8192, 3072
"""Cost of a false positive, in bytes that a rule reads. It is lower in the middle of a word, as in base64."""
_LENGTH_SHARE = 48
"""Additional cost of a false positive, for each byte of its length."""
_FIRST_WORDS = 4096
_BYTES_PER_WORD = 2048
_NEW_WORD_COST, MASK_COST = 8, 16


class WorkBudget:
    """The rule work that a scan may still spend on false positives.

    An expression takes linear time, but in adversarial text hundreds of rules may match everywhere, or all matches may
    be false positives. Work is counted in bytes that a rule reads; ordinary text needs 1 to 15 per byte.
    """

    __slots__ = ("_left", "_words", "unscanned")

    def __init__(self) -> None:
        self._left = _FIRST_BYTES
        self._words = _FIRST_WORDS
        self.unscanned: list[tuple[int, int]] = []
        """Parts of the text in which not every rule was tried, because the budget was exhausted."""

    def refill(self, size: int) -> None:
        """Increase the budget for `size` more bytes of text."""
        self._left = min(_FIRST_BYTES, max(0, self._left) + size * _BYTES_PER_BYTE)
        self._words = min(_FIRST_WORDS, max(0, self._words) + size // _BYTES_PER_WORD)

    def covers(self, rule_bytes: int) -> bool:
        """Return whether the budget covers this much work."""
        return rule_bytes <= self._left

    def charge(self, rule_bytes: int) -> bool:
        """Charge the budget for the work of rules; return False if it is exhausted."""
        self._left -= rule_bytes
        return self._left >= 0

    def charge_false_positive(self, size: int, *, inside_word: bool) -> bool:
        """Charge the budget for a rejected candidate of `size` bytes; return False if it is exhausted."""
        return self.charge(_INSIDE_WORD_BYTES if inside_word else _FALSE_POSITIVE_BYTES + size * _LENGTH_SHARE)

    def charge_word(self, cost: int = _NEW_WORD_COST) -> bool:
        """Charge the budget for one lookup of a word by its prefix; return False if it is exhausted."""
        self._words -= cost
        return self._words >= 0

    def exhaust(self, start: int, end: int) -> None:
        """Record a part of the text for which not every rule was tried."""
        if self.unscanned and self.unscanned[-1][1] == start:
            start = self.unscanned.pop()[0]
        self.unscanned.append((start, end))
