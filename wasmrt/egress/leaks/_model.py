"""The values of the leak detector: findings, reports, and the actions a finding asks for."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple


class Direction(StrEnum):
    """The way a text travels: out of the host to the network, or in towards the agent."""

    OUTWARD = "outward"
    INWARD = "inward"


class Action(StrEnum):
    """The treatment a finding asks for, weakest first."""

    WARN = "warn"
    REDACT = "redact"
    BLOCK = "block"


class Severity(StrEnum):
    """The harm a leak of this format does."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


MAX_MATCH_BYTES = 16 * 1024
"""No match of a rule is longer than this."""

SECRET_RULE = "secret:"  # noqa: S105 - the prefix of a rule's name, not a secret
"""The prefix of the rule under which a watched secret is reported; its name follows."""

DECODE_LIMIT_RULE = "decode-limit-exceeded"
"""The rule for content nested or packed beyond the decode limits, where a watched secret would not be seen.

SECURITY: it blocks, in either direction: what could not be looked at is withheld.
"""

SCAN_BUDGET_RULE = "scan-budget-exceeded"
"""The rule for a stretch with more candidates than the work budget allows: only tokens were looked for there."""

UNSCANNED_RULES = (SCAN_BUDGET_RULE, DECODE_LIMIT_RULE)


class LeakMatch(NamedTuple):
    """One secret found: half-open offsets into the scanned text, never the value itself."""

    rule: str
    start: int
    end: int
    severity: Severity
    action: Action
    certain: bool = False
    """True if a checksum held, or the value is a watched secret."""
    where: str = "text"
    """`text`, or for a request `url`, `header:NAME`, `body`."""

    def as_dict(self) -> dict[str, Any]:
        """Return the match as JSON values."""
        return {
            "rule": self.rule,
            "start": self.start,
            "end": self.end,
            "severity": str(self.severity),
            "action": str(self.action),
            "certain": self.certain,
            "where": self.where,
        }

    def moved(self, start: int, end: int) -> LeakMatch:
        """Return the match with other offsets."""
        return self._replace(start=start, end=end)


class LeakReport(NamedTuple):
    """Every match in order of place, unscanned content last; `should_block` when one of them asks for it."""

    matches: tuple[LeakMatch, ...] = ()
    should_block: bool = False

    def __bool__(self) -> bool:
        return bool(self.matches)

    @property
    def unscanned(self) -> str | None:
        """The rule that reports unscanned text; None if the whole text was scanned."""
        last = self.matches[-1].rule if self.matches else ""
        return last if last in UNSCANNED_RULES else None

    def without_unopened(self) -> LeakReport:
        """Return the report without what says that content could not be opened."""
        return report_of([match for match in self.matches if match.rule != DECODE_LIMIT_RULE])

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {"should_block": self.should_block, "matches": [m.as_dict() for m in self.matches]}


CLEAN = LeakReport()


def report_of(matches: list[LeakMatch]) -> LeakReport:
    """Sort matches by place, unscanned content last, and note whether one of them blocks."""
    if not matches:
        return CLEAN
    ordered = tuple(sorted(matches, key=lambda m: (m.rule in UNSCANNED_RULES, m.where, m.start, -m.end, m.rule)))
    return LeakReport(ordered, any(m.action is Action.BLOCK for m in ordered))


def redactions(matches: tuple[LeakMatch, ...]) -> list[tuple[int, int, str]]:
    """Return `(start, end, replacement)` for every match but warnings, in order of place.

    Matches that touch or overlap are replaced as one, so that no tail is left; the replacement names the most certain
    and longest of them.
    """
    spans: list[tuple[int, int, str]] = []
    best: tuple[bool, int] = (False, 0)
    for match in sorted(matches, key=lambda m: (m.start, m.end)):
        if match.action is Action.WARN:
            continue
        weight, mark = (match.certain, match.end - match.start), f"[REDACTED:{match.rule}]"
        if spans and match.start <= spans[-1][1]:
            start, end, kept = spans[-1]
            if weight > best:
                best, kept = weight, mark
            spans[-1] = (start, max(end, match.end), kept)
        else:
            best = weight
            spans.append((match.start, match.end, mark))
    return spans


def cut_out(data: bytes, matches: tuple[LeakMatch, ...]) -> bytes:
    """Replace every match but warnings, in bytes."""
    parts: list[bytes] = []
    position = 0
    for start, end, mark in redactions(matches):
        parts += (data[position:start], mark.encode())
        position = end
    return b"".join((*parts, data[position:])) if parts else data
