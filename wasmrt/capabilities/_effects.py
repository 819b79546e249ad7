"""Derive effects from grants, and restrict grants to effects. The effects are an upper bound of a tool's behaviour."""

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
    """Return every effect that a call under `grant` can have. Sections for single tools are ignored.

    Calling other tools counts as one effect, because those tools have their own grants and effects.
    """
    return frozenset().union(*(part.effects() for part in grant.parts))


def reached(
    grant: Capabilities, prepared: Callable[[str], T | None], seen: set[str] | None = None
) -> Iterator[tuple[str, T]]:
    """Yield each tool that a grant can call, directly or through other tools, once and with its name."""
    seen = set() if seen is None else seen
    for _, name in () if grant.tool_invoke is None else grant.tool_invoke.aliases:
        if name not in seen and (tool := prepared(name)) is not None:
            seen.add(name)
            yield name, tool
            yield from reached(tool.capabilities, prepared, seen)


def within_effects(grant: Capabilities, effects: frozenset[Effect]) -> Capabilities:
    """Return the part of `grant` whose calls have only these effects. It is never wider than `grant`."""
    for part in grant.parts:
        narrowed = part.within_effects(effects)
        grant = grant.without(type(part)) if narrowed is None else grant.with_part(narrowed)
    return grant
