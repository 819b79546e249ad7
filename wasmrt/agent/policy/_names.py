"""Names of tools in rules and presets, and the patterns that they match."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from wasmrt.core.names import folded, offered_name, spelling

Names = str | tuple[str, ...]
"""The name of a tool, or its name followed by its aliases."""


def first_name(names: Names) -> str:
    """Return the name of a tool without its aliases."""
    return names if isinstance(names, str) else names[0]


def fits(names: Names, patterns: Iterable[str]) -> bool:
    """Return whether a tool's name or one of its aliases, in any spelling, matches one of the patterns.

    A pattern without `*` matches every spelling under which a model can call the tool.
    """
    # SECURITY: a rule under an alias applies to the tool, because a model can call the tool by the alias.
    given = (names,) if isinstance(names, str) else names
    spelled = {each for name in given for each in (folded(name), folded(offered_name(name)))}
    return any(_matches_pattern(one, pattern) for pattern in patterns for one in spelled)


@lru_cache(maxsize=4096)
def _matches_pattern(spelled: str, pattern: str) -> bool:
    # Only * is a wildcard.
    if "*" not in pattern:
        return spelling(spelled) == spelling(pattern)
    literal = "".join(f"[{mark}]" if mark in "?[]" else mark for mark in folded(pattern))
    return fnmatchcase(spelled, literal)
