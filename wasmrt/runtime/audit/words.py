"""Receipts in words for people, and the moments that people write."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from wasmrt.core.errors import ConfigurationError
from wasmrt.runtime.audit.reading import Record, denials

_SPAN = re.compile(r"([0-9]{1,6})([smhdw])\Z")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def moment(text: str) -> int:
    """Read a moment: a time before now, or a date and time in UTC; Unix milliseconds.

    Raises:
        ConfigurationError: it is neither.
    """
    if span := _SPAN.match(text):
        return int((datetime.now(UTC).timestamp() - int(span[1]) * _UNITS[span[2]]) * 1000)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{text!r:.80} is not a time", hint="write 2h, 7d, or 2026-01-31T12:00") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def in_words(milliseconds: int | None) -> str:
    """Format Unix milliseconds as a time in UTC."""
    if milliseconds is None:
        return "-"
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "-"


def row(record: Record) -> tuple[str, ...]:
    """Return a receipt as a row of a table."""
    seconds = (record.get("usage") or {}).get("wall_seconds", 0.0)
    return (
        in_words(record.get("ended_ms")),
        str(record.get("tool")),
        str(record.get("user")),
        str(record.get("outcome")),
        str(len(denials(record))),
        f"{seconds:.3f}",
        str(record.get("call_id")),
    )


HEADER = ("ENDED (UTC)", "TOOL", "USER", "OUTCOME", "DENIED", "SECONDS", "CALL")


def described(record: Record) -> list[str]:
    """Return a receipt in lines for people; what is empty is left out."""
    lines = [f"{name}: {in_words(record.get(name))} UTC" for name in ("started_ms", "ended_ms")]
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
