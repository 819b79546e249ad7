"""Compares two sets of capabilities: everything that got wider, and everything that got narrower."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities.lattice import for_tool
from wasmrt.capabilities.model import (
    HttpCapability,
    RateLimitConfig,
    WorkspaceWriteCapability,
    credential_within,
    endpoint_within,
    name_within,
    prefix_within,
)
from wasmrt.capabilities.sections import HTTP_NUMBERS, WRITE_NUMBERS
from wasmrt.capabilities.sentences._phrases import format_credential, format_endpoint, format_prefix, name_tools
from wasmrt.limits import ResourceLimits

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is allowed on one side only."""

    section: str
    """`http.allowlist`, `limits.fuel`, ..."""
    sentence: str


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
    widened, narrowed = [*_added(old, new, limits)], [*_added(new, old, limits)]
    if old.tools is not None or new.tools is not None:
        widened += _added_for_tools(old, new, limits)
        narrowed += _added_for_tools(new, old, limits)
    return CapabilityDiff(tuple(widened), tuple(narrowed))


def _added_for_tools(before: Capabilities, after: Capabilities, defaults: ResourceLimits) -> Iterator[Change]:
    """Yield what single tools may do besides, each change once with the tools that it is one of."""
    names = {tool.name for tool in (*(before.tools or ()), *(after.tools or ()))}
    changed: dict[Change, list[str]] = {}
    for name in sorted(names):
        for change in _added(for_tool(before, name), for_tool(after, name), defaults):
            changed.setdefault(change, []).append(name)
    if after.tools is None and before.tools is not None:
        yield Change("tools", "every tool may do all that the component may")
    for change, tools in changed.items():
        yield Change(f"tools.{tools[0]}.{change.section}", f"{name_tools(tools)}: {change.sentence}")


def _added(before: Capabilities, after: Capabilities, defaults: ResourceLimits) -> Iterator[Change]:
    yield from _added_http(before.http, after.http)
    yield from _listed(
        "workspace.allowed_prefixes",
        before.workspace_read.allowed_prefixes if before.workspace_read else (),
        after.workspace_read.allowed_prefixes if after.workspace_read else (),
        prefix_within,
        lambda prefix: f"may read {format_prefix(prefix)}",
    )
    yield from _added_writing(before.workspace_write, after.workspace_write)
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
        yield from _added_rate("tool_invoke", before.tool_invoke.rate_limit, after.tool_invoke.rate_limit)
    was, now = before.limits.over(defaults), after.limits.over(defaults)
    yield from _larger("limits", was, now, [f.name for f in fields(defaults)])


def _added_writing(before: WorkspaceWriteCapability | None, after: WorkspaceWriteCapability | None) -> Iterator[Change]:
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
        yield from _larger("workspace_write", before, after, WRITE_NUMBERS)


def _added_http(before: HttpCapability | None, after: HttpCapability | None) -> Iterator[Change]:
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
        yield from _added_rate("http", before.rate_limit, after.rate_limit)
        yield from _larger("http", before, after, HTTP_NUMBERS)


def _added_rate(section: str, before: RateLimitConfig, after: RateLimitConfig) -> Iterator[Change]:
    yield from _larger(f"{section}.rate_limit", before, after, ("requests_per_minute", "requests_per_hour"))


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


def _larger(section: str, before: object, after: object, names: Iterable[str]) -> Iterator[Change]:
    for name in names:
        was, now = getattr(before, name), getattr(after, name)
        if now > was:
            yield Change(f"{section}.{name}", f"{name} {now} instead of {was}")
