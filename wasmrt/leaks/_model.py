"""The words of the leak detector: what a finding is, and what may be done about one."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple


class Direction(StrEnum):
    """Which way the text travels: out of the sandbox's host to the network, or in towards the agent."""

    OUTWARD = "outward"
    INWARD = "inward"


class Action(StrEnum):
    """What a finding asks for, weakest first."""

    WARN = "warn"
    REDACT = "redact"
    BLOCK = "block"


class Severity(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


MAX_REACH_BYTES = 16 * 1024
"""No match of a rule is longer than this: what a chunk needs to see beyond its end."""

SECRET_RULE = "secret:"  # noqa: S105 - the prefix of a rule's name, not a secret
"""An exact match of a primed secret is reported under this prefix and the secret's name."""


UNOPENED_RULE = "unopened-content"
"""Content that is packed over the limits is reported under this name: it may hold a primed secret, unseen."""

UNJUDGED_RULE = "unjudged-content"
"""Text with more look-alikes than a scan may weigh is reported under this name: in it, tokens alone were looked for."""

_LAST = (UNJUDGED_RULE, UNOPENED_RULE)


class LeakMatch(NamedTuple):
    """One secret found: half-open offsets into what was scanned, never the value itself."""

    rule: str
    start: int
    end: int
    severity: Severity
    action: Action
    certain: bool = False
    """A checksum held, or the value is one of ours."""
    where: str = "text"
    """`text`, or for a request `url`, `header:NAME`, `body`."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "start": self.start,
            "end": self.end,
            "severity": str(self.severity),
            "action": str(self.action),
            "certain": self.certain,
            "where": self.where,
        }


class LeakReport(NamedTuple):
    """Every finding in order of place, unopened content last; `should_block` when one of them asks for it."""

    matches: tuple[LeakMatch, ...] = ()
    should_block: bool = False

    def __bool__(self) -> bool:
        return bool(self.matches)

    def as_dict(self) -> dict[str, Any]:
        return {"should_block": self.should_block, "matches": [m.as_dict() for m in self.matches]}


CLEAN = LeakReport()


def report_of(matches: list[LeakMatch]) -> LeakReport:
    """Put findings in order of place, what was not looked through last, and say whether one of them blocks."""
    if not matches:
        return CLEAN
    ordered = tuple(sorted(matches, key=lambda m: (m.rule in _LAST, m.where, m.start, -m.end, m.rule)))
    return LeakReport(ordered, any(m.action is Action.BLOCK for m in ordered))


def merged_spans(matches: tuple[LeakMatch, ...]) -> list[tuple[int, int, str]]:
    """Join findings that touch or overlap into `(start, end, rule)`, so that a cut never re-exposes a tail.

    The name kept for a joined span is that of its most certain, longest finding.
    """
    spans: list[tuple[int, int, str]] = []
    best: tuple[bool, int] = (False, 0)
    for match in sorted(matches, key=lambda m: (m.start, m.end)):
        weight = (match.certain, match.end - match.start)
        if spans and match.start <= spans[-1][1]:
            start, end, rule = spans[-1]
            if weight > best:
                best, rule = weight, match.rule
            spans[-1] = (start, max(end, match.end), rule)
        else:
            best = weight
            spans.append((match.start, match.end, match.rule))
    return spans
