"""Values of the leak detector: matches, reports and actions."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple


class Direction(StrEnum):
    """The direction of a text: out to the network, or in to the agent."""

    OUTWARD = "outward"
    INWARD = "inward"


class Action(StrEnum):
    """The treatment of a match, weakest first."""

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
"""The prefix, followed by the secret's name, of the rule id for a watched secret."""

DECODE_LIMIT_RULE = "decode-limit-exceeded"
"""The rule id for content beyond the decode limits, in which a watched secret would not be found.

SECURITY: it blocks in both directions, so that unscanned content is withheld.
"""

SCAN_BUDGET_RULE = "scan-budget-exceeded"
"""The rule id for text with more candidates than the work budget allows, in which only tokens were searched."""

UNSCANNED_RULES = (SCAN_BUDGET_RULE, DECODE_LIMIT_RULE)


class LeakMatch(NamedTuple):
    """One detected secret: half-open offsets into the scanned text, never the value itself."""

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
    """All matches in order of place, with unscanned content last; `should_block` if any match blocks."""

    matches: tuple[LeakMatch, ...] = ()
    should_block: bool = False

    def __bool__(self) -> bool:
        return bool(self.matches)

    @property
    def unscanned(self) -> str | None:
        """The rule id for unscanned text; None if the whole text was scanned."""
        last = self.matches[-1].rule if self.matches else ""
        return last if last in UNSCANNED_RULES else None

    def without_unopened(self) -> LeakReport:
        """Return the report without matches for content that could not be decoded."""
        return report_of([match for match in self.matches if match.rule != DECODE_LIMIT_RULE])

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {"should_block": self.should_block, "matches": [m.as_dict() for m in self.matches]}


CLEAN = LeakReport()


def report_of(matches: list[LeakMatch]) -> LeakReport:
    """Sort matches by place, with unscanned content last, and set `should_block`."""
    if not matches:
        return CLEAN
    ordered = tuple(sorted(matches, key=lambda m: (m.rule in UNSCANNED_RULES, m.where, m.start, -m.end, m.rule)))
    return LeakReport(ordered, any(m.action is Action.BLOCK for m in ordered))


def redactions(matches: tuple[LeakMatch, ...]) -> list[tuple[int, int, str]]:
    """Return `(start, end, replacement)` for every match except warnings, in order of place.

    Adjacent and overlapping matches are replaced as one, so that no rest remains; the replacement names the most
    certain and longest of them.
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
    """Replace every match except warnings, in bytes."""
    parts: list[bytes] = []
    position = 0
    for start, end, mark in redactions(matches):
        parts += (data[position:start], mark.encode())
        position = end
    return b"".join((*parts, data[position:])) if parts else data
