"""Format numbers, sizes, times and lists for sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wasmrt.core.limits import GIB, KIB, MIB

_BILLION, _MILLION = 10**9, 10**6


def format_number(name: str, value: float) -> str:
    """Format the value of a setting with the unit that its name ends with."""
    if name.endswith("_bytes"):
        return format_bytes(int(value))
    if name.endswith("_seconds"):
        return format_seconds(value)
    return format_count(int(value))


def format_count(count: int) -> str:
    """Format a count, and shorten large ones: `1,200`, `500 million`."""
    for unit, name in ((_BILLION, "billion"), (_MILLION, "million")):
        if count >= unit:
            return f"{_round_number(count / unit)} {name}"
    return f"{count:,}"


def format_seconds(seconds: float) -> str:
    """Format a duration: `2 minutes`, `30 seconds`."""
    for unit, name in ((3600, "hour"), (60, "minute")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g} {name}{'s' * (seconds != unit)}"
    return f"{seconds:g} second{'s' * (seconds != 1)}"


def format_bytes(size: int) -> str:
    """Format a size in bytes: `2 MiB`, `about 1.2 MiB`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{_round_number(size / unit)} {name}"
    return f"{size:,} byte{'s' * (size != 1)}"


def _round_number(value: float) -> str:
    """Round a number to a tenth, with `about` in front if rounding changed it."""
    near = round(value, 1)
    return f"{'' if near == value else 'about '}{near:,.15g}"


def name_tools(names: Sequence[str], shown: int = 6) -> str:
    """List tool names, shortened after the first few: `get, list and 12 more`."""
    if len(names) <= shown:
        return join_words(names)
    return f"{', '.join(names[: shown - 1])} and {len(names) - shown + 1} more"


def join_words(words: Iterable[str], last: str = "and") -> str:
    """Join words for a sentence: `a`, `a and b`, `a, b and c`."""
    listed = list(words)
    return f"{', '.join(listed[:-1])} {last} {listed[-1]}" if len(listed) > 1 else "".join(listed)
