"""Propose patterns for requests whose paths differ only in some segments, such as the number of an issue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from wasmrt.capabilities.model import ANY_SEGMENT, EndpointPattern, path_pattern


class Proposal(NamedTuple):
    """An entry with a pattern, and the entries that it covers instead of listing them."""

    entry: EndpointPattern
    seen: tuple[EndpointPattern, ...]


def generalize(entries: Iterable[EndpointPattern]) -> list[Proposal]:
    """Return an entry for each group of similar entries; an entry without similar ones is returned unchanged.

    Similar entries differ only in their paths. The paths have the same number of segments and the same first segment.
    In addition, either exactly one segment differs, or some segment after the first difference is equal.
    `/repos/a/b/issues/1` and `/repos/c/d/issues/2` are similar; `/v1/users/1` and `/v1/teams/2` are not.
    """
    found: list[Proposal] = []
    for entry in dict.fromkeys(entries):
        new = Proposal(entry, (entry,))
        while (near := next((pair for each in found if (pair := _merge(each, new)) is not None), None)) is not None:
            old, new = near
            found.remove(old)
        found.append(new)
    return found


def _merge(one: Proposal, other: Proposal) -> tuple[Proposal, Proposal] | None:
    """Return `one`, and a proposal for the entries of `one` and `other`. Return None if they are not similar."""
    a, b = one.entry, other.entry
    if a.with_path("/") != b.with_path("/") or (a.path is None) != (b.path is None):
        return None
    mine, theirs = a.path_pattern.text.split("/"), b.path_pattern.text.split("/")
    if len(mine) != len(theirs) or mine[1] != theirs[1] or ANY_SEGMENT in (mine[1], theirs[1]):
        return None
    differing = [at for at, (x, y) in enumerate(zip(mine, theirs, strict=True)) if x != y]
    later = [x for at, (x, y) in enumerate(zip(mine, theirs, strict=True)) if x == y and at > min(differing, default=0)]
    if len(differing) > 1 and not any(x not in ("", ANY_SEGMENT) for x in later):
        return None
    text = "/".join(ANY_SEGMENT if at in differing else x for at, x in enumerate(mine))
    pattern = path_pattern(text, is_exact=a.path is not None)
    if not (a.path_pattern.within(pattern) and b.path_pattern.within(pattern)):
        return None  # a segment that * does not match
    return one, Proposal(a.with_path_pattern(pattern), (*one.seen, *other.seen))
