"""Compare two versions of capabilities: list everything that became wider, and everything that became narrower."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities._effects import effects_of
from wasmrt.capabilities._merge import for_tool
from wasmrt.capabilities._phrases import name_tools
from wasmrt.capabilities.kinds import Change, Numbers
from wasmrt.capabilities.kinds._login import added_logins
from wasmrt.core.effects import EVERY_EFFECT, Effect, in_words
from wasmrt.core.limits import ResourceLimits


@dataclass(frozen=True, slots=True)
class CapabilityDiff:
    """The differences between two versions: permissions that only the new version has, and only the old version has."""

    widened: tuple[Change, ...]
    narrowed: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.widened or self.narrowed)

    def as_dict(self) -> dict[str, Any]:
        """Return the changes as JSON data."""
        return {
            name: [{"section": change.section, "sentence": change.sentence} for change in getattr(self, name)]
            for name in ("widened", "narrowed")
        }


def diff(old: Capabilities, new: Capabilities, *, defaults: ResourceLimits | None = None) -> CapabilityDiff:
    """Compare two versions of capabilities.

    An entry counts as changed unless a single entry of the other version covers it completely.
    """
    limits = defaults or ResourceLimits()
    return CapabilityDiff(
        tuple(_all_added(old, new, limits, narrower=False)), tuple(_all_added(new, old, limits, narrower=True))
    )


def _all_added(
    before: Capabilities, after: Capabilities, defaults: ResourceLimits, *, narrower: bool
) -> Iterator[Change]:
    """Yield a change for everything that `after` allows and `before` does not.

    With `narrower`, `after` is the old version, so each change is something that the new version no longer allows.
    """
    numbers = Numbers(narrower=narrower)
    yield from _added(before, after, defaults, numbers)
    yield from added_logins(before.logins, after.logins, narrower=narrower)
    if before.tools is not None or after.tools is not None:
        yield from _added_for_tools(before, after, defaults, numbers)


def _added_for_tools(
    before: Capabilities, after: Capabilities, defaults: ResourceLimits, numbers: Numbers
) -> Iterator[Change]:
    """Yield the changes of single tools. A change that several tools have is yielded once, with the names of all."""
    names = {tool.name for tool in (*(before.tools or ()), *(after.tools or ()))}
    changed: dict[Change, list[str]] = {}
    for name in sorted(names):
        was, now = for_tool(before, name), for_tool(after, name)
        held = _effects_held(before, name, was), _effects_held(after, name, now)
        for change in (*_added(was, now, defaults, numbers), *_added_effects(was, *held)):
            changed.setdefault(change, []).append(name)
    if after.tools is None and before.tools is not None:
        yield Change("tools", "every tool has all capabilities of the component")
    for change, tools in changed.items():
        yield Change(f"tools.{tools[0]}.{change.section}", f"{name_tools(tools)}: {change.sentence}")


def _added_effects(was: Capabilities, before: frozenset[Effect], after: frozenset[Effect]) -> Iterator[Change]:
    """Yield a change for each effect that `after` adds and that the old grant `was` would already have allowed.

    The other added effects come from new entries, which are changes themselves.
    """
    for effect in sorted((after - before) & _effects_within_reach(was)):
        yield Change("effects", f"may {in_words(frozenset({effect}))}, as far as the rest of its grant allows")


def _effects_held(capabilities: Capabilities, name: str, own: Capabilities) -> frozenset[Effect]:
    """Return the effects that calls of the tool `name` can have: the declared effects that its grant `own` allows."""
    declared = next((tool.effects for tool in capabilities.tools or () if tool.name == name), None)
    return _effects_within_reach(own) & (EVERY_EFFECT if declared is None else frozenset(declared))


def _effects_within_reach(own: Capabilities) -> frozenset[Effect]:
    """Return the effects of a grant, or all effects if the grant can call other tools, whose effects are unknown."""
    effects = effects_of(own)
    return EVERY_EFFECT if Effect.INVOKE_TOOL in effects else effects


def _added(before: Capabilities, after: Capabilities, defaults: ResourceLimits, numbers: Numbers) -> Iterator[Change]:
    for part in after.parts:
        yield from part.added(before.get(type(part)), numbers)
    yield from after.limits.added(before.limits, defaults, numbers)
