"""Format receipts, and count their calls, outcomes, denials and approvals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.runtime.audit.reading import Record, list_denials

_SPAN = re.compile(r"([0-9]{1,6})([smhdw])\Z")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def parse_moment(text: str) -> int:
    """Parse a duration before now, such as `2h`, or a date and time in UTC; return Unix milliseconds.

    Raises:
        ConfigurationError: the text is neither a duration nor a date and time.
    """
    if span := _SPAN.match(text):
        return int((datetime.now(UTC).timestamp() - int(span[1]) * _UNITS[span[2]]) * 1000)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        hint = 'write a duration before now, such as "2h" or "7d", or a time in UTC, such as "2026-01-31T12:00"'
        raise ConfigurationError(f"{text!r:.80} is not a time", hint=hint) from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def format_time(milliseconds: int | None) -> str:
    """Format Unix milliseconds as a time in UTC, or `-` for None and invalid times."""
    if milliseconds is None:
        return "-"
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "-"


def format_row(record: Record) -> tuple[str, ...]:
    """Return a receipt as a table row."""
    seconds = (record.get("usage") or {}).get("wall_seconds", 0.0)
    return (
        format_time(record.get("ended_ms")),
        str(record.get("tool")),
        str(record.get("user")),
        str(record.get("client") or "-"),
        str(record.get("outcome")),
        str(len(list_denials(record))),
        f"{seconds:.3f}",
        str(record.get("call_id")),
    )


HEADER = ("ENDED (UTC)", "TOOL", "USER", "CLIENT", "OUTCOME", "DENIED", "SECONDS", "CALL")


def describe_receipt(record: Record) -> list[str]:
    """Return a receipt as lines of text, without empty fields."""
    lines = [f"{name}: {format_time(record.get(name))} UTC" for name in ("started_ms", "ended_ms")]
    for name, value in record.items():
        if name in ("type", "started_ms", "ended_ms", "decisions", "usage", "approval") or value in ("", None, [], 0):
            continue
        lines.append(f"{name}: {' > '.join(map(str, value)) if isinstance(value, list) else value}")
    if approval := record.get("approval"):
        lines.append("approval: " + ", ".join(f"{name} {value}" for name, value in approval.items() if value))
    used = {name: value for name, value in (record.get("usage") or {}).items() if value}
    lines.append("usage: " + (", ".join(f"{name} {value}" for name, value in used.items()) or "nothing"))
    lines += [
        f"{'allowed' if each.get('allowed') else 'denied'}: {each.get('subject') or each.get('capability')} "
        f"({each.get('reason')}: {each.get('rule')})"
        for each in record.get("decisions") or ()
    ]
    return lines


_MOST = 10


class ToolReport(NamedTuple):
    """Totals of one tool's calls."""

    tool: str
    calls: int
    failed: int
    seconds: float
    """Total duration of the tool's calls."""
    http_requests: int


class Report(NamedTuple):
    """Totals of receipts. Lists contain at most ten entries, the most frequent first."""

    calls: int
    failed: int
    users: int
    first_ms: int | None
    last_ms: int | None
    tools: list[ToolReport]
    outcomes: list[tuple[str, int]]
    """Error codes of failed calls, with counts."""
    denied: list[tuple[str, int]]
    """Reasons of denials, with counts."""
    approvals: list[tuple[str, int]]
    """Methods of approval with the user or rule that approved, and counts."""
    top_users: list[tuple[str, int]]

    def as_dict(self) -> dict[str, object]:
        """Return the report as JSON data."""
        return self._asdict() | {
            "tools": [tool._asdict() for tool in self.tools],
            **{name: dict(getattr(self, name)) for name in ("outcomes", "denied", "approvals", "top_users")},
        }


def report_on(records: Iterable[Record]) -> Report:
    """Compute the totals of receipts."""
    tools: dict[str, ToolReport] = {}
    users, outcomes, denied, approvals = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    first: int | None = None
    last: int | None = None
    for record in records:
        failed = record.get("outcome") != "ok"
        name, usage = str(record.get("tool")), record.get("usage") or {}
        known = tools.get(name) or ToolReport(name, 0, 0, 0.0, 0)
        tools[name] = ToolReport(
            name,
            known.calls + 1,
            known.failed + failed,
            known.seconds + usage.get("wall_seconds", 0.0),
            known.http_requests + usage.get("http_requests", 0),
        )
        users[str(record.get("user"))] += 1
        if failed:
            outcomes[str(record.get("outcome"))] += 1
        denied.update(str(decision.get("reason")) for decision in list_denials(record))
        if approval := record.get("approval"):
            approvals[" by ".join(str(approval[name]) for name in ("how", "by") if approval.get(name))] += 1
        ended = record["ended_ms"]
        first, last = ended if first is None else min(ended, first), max(ended, last or ended)
    every = sorted(tools.values(), key=lambda tool: (-tool.calls, tool.tool))
    return Report(
        calls=users.total(),
        failed=outcomes.total(),
        users=len(users),
        first_ms=first,
        last_ms=last,
        tools=every[:_MOST],
        outcomes=outcomes.most_common(_MOST),
        denied=denied.most_common(_MOST),
        approvals=approvals.most_common(_MOST),
        top_users=users.most_common(_MOST),
    )
