"""The effects of a grant: an upper bound of what a sandboxed tool can do, and the part of a grant without others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.core.effects import Effect


class Granted(Protocol):
    """A tool with a grant."""

    @property
    def capabilities(self) -> Capabilities:
        """Its grant."""


T = TypeVar("T", bound=Granted)


def effects_of(grant: Capabilities) -> frozenset[Effect]:
    """Return every effect that a call under `grant` can have; sections of single tools do not count.

    Tools that it may call are one effect, whatever they do: they have their own grants and effects.
    """
    return frozenset().union(*(part.effects() for part in grant.parts))


def reached(
    grant: Capabilities, prepared: Callable[[str], T | None], seen: set[str] | None = None
) -> Iterator[tuple[str, T]]:
    """Yield each tool that a grant can call, directly or through other tools, with its name: each once."""
    seen = set() if seen is None else seen
    for _, name in () if grant.tool_invoke is None else grant.tool_invoke.aliases:
        if name not in seen and (tool := prepared(name)) is not None:
            seen.add(name)
            yield name, tool
            yield from reached(tool.capabilities, prepared, seen)


def within_effects(grant: Capabilities, effects: frozenset[Effect]) -> Capabilities:
    """Return the part of `grant` whose calls can have no other effects; never wider than `grant`."""
    for part in grant.parts:
        narrowed = part.within_effects(effects)
        grant = grant.without(type(part)) if narrowed is None else grant.with_part(narrowed)
    return grant
