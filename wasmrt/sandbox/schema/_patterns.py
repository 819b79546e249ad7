"""Estimate the time that the patterns of a schema take: to compile, and for each character of a text.

Patterns run on an engine without backtracking. The time of matching depends on the number of states of the
automaton, which counted repetitions multiply. The time of compiling depends on the classes of Unicode characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from wasmrt.sandbox.schema._document import subschemas

_FEW_STATES = 64
"""A pattern with at most this many states takes 5 ns for a character; a larger one takes 1 ns more for each state."""
_REPEAT = re.compile(r"\{(\d{1,9})?(,)?(\d{1,9})?\}")
_UNICODE_PROPERTY = re.compile(r"\\[pP]")
_NOT_ASCII = re.compile(r"\A\[\^|\\[WDSs]|[^\x00-\x7f]")
"""Classes with many Unicode characters; `\\w` and `\\d` are ASCII in JSON Schema."""


Path = tuple[str | int, ...]


def iter_patterns(schema: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the patterns of a reference-free schema with their paths; `path` is the path of the schema."""
    if not isinstance(schema, dict):
        return
    yield from iter_own_patterns(schema, path)
    for place, inner in subschemas(schema):
        yield from iter_patterns(inner, path + place)


def iter_own_patterns(schema: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the patterns of a schema without those of its subschemas, with their paths."""
    listed = schema.get("patternProperties")
    if isinstance(schema.get("pattern"), str):
        yield (*path, "pattern"), schema["pattern"]
    for name in listed if isinstance(listed, dict) else ():
        yield (*path, "patternProperties"), name


def estimate_character_ns(pattern: str) -> int:
    """Return the nanoseconds that matching a pattern takes for each character of a text."""
    states = _sum_of_atoms(pattern, lambda atom: 1)
    return 5 if states <= _FEW_STATES else 5 + states


def estimate_compile_ns(pattern: str) -> int:
    """Return the nanoseconds that compiling a pattern takes."""
    return 50_000 + _sum_of_atoms(pattern, _estimate_atom_ns)


def _estimate_atom_ns(atom: str) -> int:
    """Return the nanoseconds that compiling a character, an escape or a class takes."""
    if _UNICODE_PROPERTY.search(atom):
        return 350_000
    return 15_000 if atom == "." or _NOT_ASCII.search(atom) else 1_000


def _sum_of_atoms(pattern: str, cost: Callable[[str], int]) -> int:
    """Return the total cost of a pattern's characters, escapes and classes. Repeated ones count for each repetition."""
    totals, last, at = [0], 0, 0
    while at < len(pattern):
        char = pattern[at]
        repeat = _REPEAT.match(pattern, at) if char == "{" else None
        start, at = at, _find_atom_end(pattern, at) if repeat is None else repeat.end()
        if repeat is not None:
            times = max(int(group) for group in (repeat[1], repeat[3], "1") if group)
            totals[-1] += last * (times - 1)
            last *= times
        elif char == "(":
            totals.append(0)
        elif char == ")" and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
        else:
            last = cost(pattern[start:at])
            totals[-1] += last
    return min(sum(totals), 10**12)


def _find_atom_end(pattern: str, at: int) -> int:
    """Return the end of the character, escape or class that starts at `at`."""
    if pattern[at] == "\\":
        return at + 2
    if pattern[at] != "[":
        return at + 1
    end = pattern.find("]", at + 2)
    return len(pattern) if end < 0 else end + 1
