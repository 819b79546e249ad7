"""Weigh `name = value`: whether a value beside a telling name looks like a secret rather than like code or prose."""

from __future__ import annotations

from collections.abc import Callable

from wasmrt.leaks._checks import entropy, is_placeholder, longest_sequence

_QUOTES = frozenset(b"\"'`")


def looks_assigned(data: bytes, begin: int, start: int, end: int) -> bool:
    """Decide on the candidate `data[start:end]` whose name begins at `begin`."""
    value = data[start:end]
    if is_placeholder(value) or longest_sequence(value) >= 9:
        return False
    return entropy(value) >= 3.5 and any(48 <= c <= 57 for c in value)


CONTEXT_CHECKS: dict[str, Callable[[bytes, int, int, int], bool]] = {"assigned": looks_assigned}
"""Checks that read what stands around the candidate."""
