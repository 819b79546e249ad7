"""Format a count with its noun."""

from __future__ import annotations


def format_counted(count: int, noun: str) -> str:
    """Return a count with its noun in the singular or plural: `1 call`, `1,200 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
