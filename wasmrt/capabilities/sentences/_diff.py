"""Compares two sets of capabilities: everything that got wider, and everything that got narrower."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities._effects import effects_of
from wasmrt.capabilities.lattice import for_tool
from wasmrt.capabilities.model import (
    HttpCapability,
    WorkspaceWriteCapability,
    credential_within,
    endpoint_within,
    name_within,
    prefix_within,
)
from wasmrt.capabilities.sections import HTTP_NUMBERS, WRITE_NUMBERS
from wasmrt.capabilities.sentences._logins import Change, added_logins
from wasmrt.capabilities.sentences._phrases import (
    format_credential,
    format_endpoint,
    format_number,
    format_prefix,
    name_tools,
)
from wasmrt.core.effects import EVERY_EFFECT, Effect, in_words
from wasmrt.core.limits import ResourceLimits

T = TypeVar("T")
_RATES = ("requests_per_minute", "requests_per_hour")
_ABOUT = {
    "max_request_bytes": "a request's size",
    "max_response_bytes": "an answer's size",
    "timeout_seconds": "time",
    "requests_per_minute": "times a minute",
    "requests_per_hour": "times an hour",
    "max_file_bytes": "a file's size",
    "max_bytes": "all that a call writes",
    "max_files": "files that a call writes",
    "memory_bytes": "memory",
    "fuel": "units of fuel",
    "output_bytes": "a result's size",
    "table_elements": "elements in a table",
    "instances": "core instances",
}


@dataclass(frozen=True, slots=True)
class CapabilityDiff:
    """The things that `new` allows beyond `old`, and those that it no longer allows."""

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
    """Compare two sets of capabilities. An entry that several others cover only together counts as a change."""
    limits = defaults or ResourceLimits()
    return CapabilityDiff(
        tuple(_all_added(old, new, limits, narrower=False)), tuple(_all_added(new, old, limits, narrower=True))
    )


def _all_added(
    before: Capabilities, after: Capabilities, defaults: ResourceLimits, *, narrower: bool
) -> Iterator[Change]:
    """Yield what `after` allows beyond `before`; where `narrower`, `after` is the older one, and is told as such."""
    numbers = _Numbers(narrower=narrower)
    yield from _added(before, after, defaults, numbers)
    yield from added_logins(before.logins, after.logins, narrower=narrower)
    if before.tools is not None or after.tools is not None:
        yield from _added_for_tools(before, after, defaults, numbers)


def _added_for_tools(
    before: Capabilities, after: Capabilities, defaults: ResourceLimits, numbers: _Numbers
) -> Iterator[Change]:
    """Yield what single tools may do besides, each change once with the tools that it is one of."""
    names = {tool.name for tool in (*(before.tools or ()), *(after.tools or ()))}
    changed: dict[Change, list[str]] = {}
    for name in sorted(names):
        was, now = for_tool(before, name), for_tool(after, name)
        held = _effects_held(before, name, was), _effects_held(after, name, now)
        for change in (*_added(was, now, defaults, numbers), *_added_effects(was, *held)):
            changed.setdefault(change, []).append(name)
    if after.tools is None and before.tools is not None:
        yield Change("tools", "every tool may do all that the component may")
    for change, tools in changed.items():
        yield Change(f"tools.{tools[0]}.{change.section}", f"{name_tools(tools)}: {change.sentence}")


def _added_effects(was: Capabilities, before: frozenset[Effect], after: frozenset[Effect]) -> Iterator[Change]:
    """Yield the effects that only a declaration kept a tool from; one that comes with a new entry is told by that."""
    for effect in sorted((after - before) & _effects_within_reach(was)):
        yield Change("effects", f"may {in_words(frozenset({effect}))}, as far as the rest of its grant allows")


def _effects_held(capabilities: Capabilities, name: str, own: Capabilities) -> frozenset[Effect]:
    """Return the effects that a call of a tool can have: those of its grant, and of them what is declared."""
    declared = next((tool.effects for tool in capabilities.tools or () if tool.name == name), None)
    return _effects_within_reach(own) & (EVERY_EFFECT if declared is None else frozenset(declared))


def _effects_within_reach(own: Capabilities) -> frozenset[Effect]:
    """Return the effects of a grant; with those of tools that it may invoke, which nobody knows here, all there are."""
    effects = effects_of(own)
    return EVERY_EFFECT if Effect.INVOKE_TOOL in effects else effects


def _added(before: Capabilities, after: Capabilities, defaults: ResourceLimits, numbers: _Numbers) -> Iterator[Change]:
    yield from _added_http(before.http, after.http, numbers)
    yield from _listed(
        "workspace.allowed_prefixes",
        before.workspace_read.allowed_prefixes if before.workspace_read else (),
        after.workspace_read.allowed_prefixes if after.workspace_read else (),
        prefix_within,
        lambda prefix: f"may read {format_prefix(prefix)}",
    )
    yield from _added_writing(before.workspace_write, after.workspace_write, numbers)
    yield from _listed(
        "secrets.allowed_names",
        before.secrets.allowed_names if before.secrets else (),
        after.secrets.allowed_names if after.secrets else (),
        name_within,
        lambda name: f"may ask whether secret {name} is set",
    )
    yield from _listed(
        "tool_invoke.aliases",
        before.tool_invoke.aliases if before.tool_invoke else (),
        after.tool_invoke.aliases if after.tool_invoke else (),
        operator.eq,
        lambda pair: f"may call the tool {pair[1]} as {pair[0]}",
    )
    if before.tool_invoke and after.tool_invoke:
        one, other = before.tool_invoke.rate_limit, after.tool_invoke.rate_limit
        yield from numbers.larger("tool_invoke.rate_limit", one, other, _RATES)
    was, now = before.limits.over(defaults), after.limits.over(defaults)
    yield from numbers.larger("limits", was, now, [f.name for f in fields(defaults)])


def _added_writing(
    before: WorkspaceWriteCapability | None, after: WorkspaceWriteCapability | None, numbers: _Numbers
) -> Iterator[Change]:
    yield from _listed(
        "workspace_write.allowed_prefixes",
        before.allowed_prefixes if before else (),
        after.allowed_prefixes if after else (),
        prefix_within,
        lambda prefix: f"may write {format_prefix(prefix)}",
    )
    if after and after.remove and not (before and before.remove):
        yield Change("workspace_write.remove", "may remove what it has not made")
    if before and after:
        yield from numbers.larger("workspace_write", before, after, WRITE_NUMBERS)


def _added_http(before: HttpCapability | None, after: HttpCapability | None, numbers: _Numbers) -> Iterator[Change]:
    yield from _listed(
        "http.allowlist",
        before.allowlist if before else (),
        after.allowlist if after else (),
        endpoint_within,
        lambda entry: f"may {format_endpoint(entry)}",
    )
    yield from _listed(
        "http.credentials",
        before.credentials if before else (),
        after.credentials if after else (),
        credential_within,
        lambda mapping: f"sends requests {format_credential(mapping)}",
    )
    if before and after:
        yield from numbers.larger("http.rate_limit", before.rate_limit, after.rate_limit, _RATES)
        yield from numbers.larger("http", before, after, HTTP_NUMBERS)


def _listed(
    section: str,
    before: Iterable[T],
    after: Iterable[T],
    within: Callable[[T, T], bool],
    describe: Callable[[T], str],
) -> Iterator[Change]:
    covered = list(before)
    for item in after:
        if not any(within(item, other) for other in covered):
            yield Change(section, describe(item))


class _Numbers(NamedTuple):
    """Compares numbers, and says them from the old one to the new one, whichever way they changed."""

    narrower: bool
    """The changes lead from the second value to the first."""

    def larger(self, section: str, before: object, after: object, names: Iterable[str]) -> Iterator[Change]:
        """Yield each number that is larger in `after`."""
        for name in names:
            smaller, larger = getattr(before, name), getattr(after, name)
            if larger <= smaller:
                continue
            old, new = (larger, smaller) if self.narrower else (smaller, larger)
            was, now = format_number(name, old), format_number(name, new)
            if was == now:  # too near to each other for round numbers
                was, now = f"{old:,}", f"{new:,}"
            yield Change(f"{section}.{name}", f"{_ABOUT.get(name, name)}: {now} instead of {was}")
