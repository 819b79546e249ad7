"""Merge a tool's request with its grant; the result is never wider than either."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wasmrt.capabilities._capabilities import Capabilities, ToolGrant
from wasmrt.capabilities.kinds._limits import ToolLimits
from wasmrt.capabilities.kinds._login import intersect_logins
from wasmrt.capabilities.kinds._workspace import WorkspaceWriteCapability
from wasmrt.core.effects import Effect
from wasmrt.core.limits import ResourceLimits


def merge(request: Capabilities, grant: Capabilities, *, defaults: ResourceLimits | None = None) -> Capabilities:
    """Return the capabilities that both the request and the grant allow.

    A limit that is missing on one side counts as the runtime's `defaults`.

    Raises:
        ConfigurationError: the result exceeds the bounds of a capability file.

    Examples:
        >>> from wasmrt import Capabilities, merge
        >>> request = Capabilities.none().with_workspace_read(["reports/", "notes/"])
        >>> grant = Capabilities.none().with_workspace_read(["reports/"])
        >>> merge(request, grant).workspace_read.allowed_prefixes
        ('reports/',)
    """
    if request == grant:
        return request
    parts = ((one, grant.get(type(one))) for one in request.parts)
    return Capabilities.of(
        (one.intersect(other) for one, other in parts if other is not None),
        limits=request.limits.intersect(grant.limits, defaults or ResourceLimits()),
        tools=_merge_tools(request, grant),
        logins=intersect_logins(request.logins, grant.logins),
    )


def for_tool(capabilities: Capabilities, name: str) -> Capabilities:
    """Return the capabilities of the tool `name` in a component.

    If the component has sections for tools, these are the capabilities that both the tool's section and the component
    allow.

    Raises:
        ConfigurationError: as for `merge`.
    """
    whole = replace(capabilities, tools=None)
    if capabilities.tools is None:
        return whole
    section = next((tool.capabilities for tool in capabilities.tools if tool.name == name), Capabilities.none())
    # SECURITY: the section is merged with the component's capabilities, so that it cannot allow more than these.
    common = merge(section, replace(whole, limits=section.limits))
    return replace(common, limits=capabilities.limits, logins=capabilities.logins)


def section_of(capabilities: Capabilities, name: str) -> Capabilities:
    """Return the capabilities of the tool `name` without limits and logins, as the tool's section stores them.

    Raises:
        ConfigurationError: as for `merge`.
    """
    return replace(for_tool(capabilities, name), limits=ToolLimits(), logins=())


def within_write_paths(capabilities: Capabilities, paths: Iterable[str]) -> Capabilities:
    """Restrict writing to these folders of the workspace. The result is never wider than `capabilities`.

    Raises:
        ConfigurationError: a folder is not a valid prefix.
    """
    writing = capabilities.get(WorkspaceWriteCapability)
    return capabilities if writing is None else capabilities.with_part(writing.within_folders(paths))


def _merge_tools(request: Capabilities, grant: Capabilities) -> tuple[ToolGrant, ...] | None:
    if request.tools is None and grant.tools is None:
        return None
    effects = [{tool.name: tool.effects for tool in side.tools or ()} for side in (request, grant)]
    listed = [names.keys() for names, side in zip(effects, (request, grant), strict=True) if side.tools is not None]
    return tuple(
        ToolGrant(
            name,
            replace(merge(for_tool(request, name), for_tool(grant, name)), limits=ToolLimits(), logins=()),
            _intersect_effects(effects[0].get(name), effects[1].get(name)),
        )
        for name in sorted(frozenset.intersection(*map(frozenset, listed)))
    )


def _intersect_effects(one: tuple[Effect, ...] | None, other: tuple[Effect, ...] | None) -> tuple[Effect, ...] | None:
    if one is None or other is None:
        return one if other is None else other
    return tuple(effect for effect in one if effect in other)
