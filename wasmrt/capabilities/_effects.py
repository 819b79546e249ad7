"""Derive the effects of a grant, and restrict a grant to effects. A tool cannot have effects beyond its grant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.core.effects import Effect


class Granted(Protocol):
    """A tool with a grant."""

    @property
    def capabilities(self) -> Capabilities:
        """The tool's grant."""


T = TypeVar("T", bound=Granted)


def effects_of(grant: Capabilities) -> frozenset[Effect]:
    """Return every effect that a call with `grant` can have. Sections for single tools are ignored.

    Calling other tools is the single effect `INVOKE_TOOL`, because those tools have their own grants and effects.
    """
    return frozenset().union(*(part.effects() for part in grant.parts))


def iter_reachable(
    grant: Capabilities, prepared: Callable[[str], T | None], seen: set[str] | None = None
) -> Iterator[tuple[str, T]]:
    """Yield the name and the tool for each tool that a grant can call, directly or through other tools.

    `prepared` returns the tool with a name, or None. Tools whose names are in `seen` are omitted.
    """
    seen = set() if seen is None else seen
    for _, name in () if grant.tool_invoke is None else grant.tool_invoke.aliases:
        if name not in seen and (tool := prepared(name)) is not None:
            seen.add(name)
            yield name, tool
            yield from iter_reachable(tool.capabilities, prepared, seen)


def within_effects(grant: Capabilities, effects: frozenset[Effect]) -> Capabilities:
    """Return the part of `grant` whose uses have only these effects. The result is never wider than `grant`."""
    for part in grant.parts:
        narrowed = part.within_effects(effects)
        grant = grant.without(type(part)) if narrowed is None else grant.with_part(narrowed)
    return grant
