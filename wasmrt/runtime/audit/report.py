"""A report on receipts: how much ran, how it ended, what was denied, who allowed what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from wasmrt.runtime.audit.reading import Record, denials

_MOST = 10


class ToolReport(NamedTuple):
    """The calls of one tool."""

    tool: str
    calls: int
    failed: int
    seconds: float
    """Of all its calls together."""
    http_requests: int


class Report(NamedTuple):
    """Counts over receipts; lists begin with the largest and are cut at ten."""

    calls: int
    failed: int
    users: int
    first_ms: int | None
    last_ms: int | None
    tools: list[ToolReport]
    outcomes: list[tuple[str, int]]
    """Codes of failed calls."""
    denied: list[tuple[str, int]]
    """Reasons of refusals."""
    approvals: list[tuple[str, int]]
    """Ways and givers of approvals."""
    top_users: list[tuple[str, int]]

    def as_dict(self) -> dict[str, object]:
        """Return the report as JSON data."""
        return self._asdict() | {
            "tools": [tool._asdict() for tool in self.tools],
            **{name: dict(getattr(self, name)) for name in ("outcomes", "denied", "approvals", "top_users")},
        }


def report_on(records: Iterable[Record]) -> Report:
    """Count receipts."""
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
        denied.update(str(decision.get("reason")) for decision in denials(record))
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
