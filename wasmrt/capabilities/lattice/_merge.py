"""Merges what a tool asks for with what it was granted: the capabilities that it has, never wider than either."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import TypeVar

from wasmrt.capabilities._capabilities import Capabilities, ToolGrant
from wasmrt.capabilities.model import (
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    LoginCapability,
    RateLimitConfig,
    SecretsCapability,
    ToolInvokeCapability,
    ToolLimits,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    common_endpoints,
    common_hosts,
    common_login,
    common_paths,
    common_ports,
    endpoint_within,
    name_within,
    prefix_within,
)
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES, ResourceLimits

T = TypeVar("T")


def merge(request: Capabilities, grant: Capabilities, *, defaults: ResourceLimits | None = None) -> Capabilities:
    """Return what both the request and the grant allow.

    Limits that one side leaves out count as the runtime's `defaults`.

    Raises:
        ConfigurationError: what is common cannot be written in the bounds of a capability file.

    Example:
        >>> from wasmrt import Capabilities, merge
        >>> request = Capabilities.none().with_workspace_read(["reports/", "notes/"])
        >>> grant = Capabilities.none().with_workspace_read(["reports/"])
        >>> merge(request, grant).workspace_read.allowed_prefixes
        ('reports/',)
    """
    if request == grant:
        return request
    return Capabilities(
        http=request.http and grant.http and _merge_http(request.http, grant.http),
        workspace_read=request.workspace_read
        and grant.workspace_read
        and WorkspaceCapability(
            _common(request.workspace_read.allowed_prefixes, grant.workspace_read.allowed_prefixes, prefix_within)
        ),
        secrets=request.secrets
        and grant.secrets
        and SecretsCapability(_common(request.secrets.allowed_names, grant.secrets.allowed_names, name_within)),
        tool_invoke=request.tool_invoke and grant.tool_invoke and _merge_tools(request.tool_invoke, grant.tool_invoke),
        limits=_merge_limits(request.limits, grant.limits, defaults or ResourceLimits()),
        tools=_merge_sections(request, grant),
        workspace_write=request.workspace_write
        and grant.workspace_write
        and _merge_writing(request.workspace_write, grant.workspace_write),
        logins=_merge_logins(request.logins, grant.logins),
    )


def for_tool(capabilities: Capabilities, name: str) -> Capabilities:
    """Return what one tool has: its section within the component's capabilities, without sections of other tools.

    Raises:
        ConfigurationError: as `merge`.
    """
    whole = replace(capabilities, tools=None)
    if capabilities.tools is None:
        return whole
    section = next((tool.capabilities for tool in capabilities.tools if tool.name == name), Capabilities.none())
    # SECURITY: a section is merged, and not believed: whatever stands in it, it is never wider than the component's.
    common = merge(section, replace(whole, limits=section.limits))
    return replace(common, limits=capabilities.limits, logins=capabilities.logins)


def _merge_sections(request: Capabilities, grant: Capabilities) -> tuple[ToolGrant, ...] | None:
    if request.tools is None and grant.tools is None:
        return None
    effects = [{tool.name: tool.effects for tool in side.tools or ()} for side in (request, grant)]
    listed = [names.keys() for names, side in zip(effects, (request, grant), strict=True) if side.tools is not None]
    return tuple(
        ToolGrant(
            name,
            replace(merge(for_tool(request, name), for_tool(grant, name)), limits=ToolLimits(), logins=()),
            _common_effects(effects[0].get(name), effects[1].get(name)),
        )
        for name in sorted(frozenset.intersection(*map(frozenset, listed)))
    )


def _common_effects(one: tuple[Effect, ...] | None, other: tuple[Effect, ...] | None) -> tuple[Effect, ...] | None:
    if one is None or other is None:
        return one if other is None else other
    return tuple(effect for effect in one if effect in other)


def _merge_http(request: HttpCapability, grant: HttpCapability) -> HttpCapability:
    if request.allowlist == grant.allowlist:
        allowlist: Sequence[EndpointPattern] = request.allowlist
    else:
        pairs = product(request.allowlist, grant.allowlist)
        allowlist = widest((e for a, b in pairs for e in common_endpoints(a, b)), endpoint_within)
    return HttpCapability(
        tuple(allowlist),
        _merge_credentials(request.credentials, grant.credentials),
        _merge_rate(request.rate_limit, grant.rate_limit),
        max_request_bytes=min(request.max_request_bytes, grant.max_request_bytes),
        max_response_bytes=min(request.max_response_bytes, grant.max_response_bytes),
        timeout_seconds=min(request.timeout_seconds, grant.timeout_seconds),
    )


def _merge_credentials(
    request: Iterable[CredentialMapping], grant: Sequence[CredentialMapping]
) -> tuple[CredentialMapping, ...]:
    merged: dict[tuple[object, ...], CredentialMapping] = {}
    names: set[str] = set()
    for asked, given in product(request, grant):
        if (asked.secret_name, asked.location) != (given.secret_name, given.location):
            continue
        hosts = common_hosts(asked.host_patterns, given.host_patterns)
        paths = common_paths(asked.path_patterns, given.path_patterns)
        ports = common_ports(asked, given)
        optional = asked.optional and given.optional
        same = (asked.secret_name, asked.location, hosts, paths, ports, optional)
        if hosts and paths is not None and ports is not None and same not in merged:
            name = _free_name(asked.name, names)
            names.add(name)
            merged[same] = replace(
                asked, host_patterns=hosts, path_patterns=paths, ports=ports, optional=optional, name=name
            )
    return tuple(merged.values())


def _merge_logins(request: Iterable[LoginCapability], grant: Sequence[LoginCapability]) -> tuple[LoginCapability, ...]:
    pairs = (common_login(asked, given) for asked, given in product(request, grant))
    return tuple(login for login in pairs if login is not None)


def _free_name(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    return next(free for n in range(2, MAX_CAPABILITY_ENTRIES**2) if (free := f"{name[:120]}-{n}") not in taken)


def _merge_writing(request: WorkspaceWriteCapability, grant: WorkspaceWriteCapability) -> WorkspaceWriteCapability:
    return WorkspaceWriteCapability(
        _common(request.allowed_prefixes, grant.allowed_prefixes, prefix_within),
        max_file_bytes=min(request.max_file_bytes, grant.max_file_bytes),
        max_bytes=min(request.max_bytes, grant.max_bytes),
        max_files=min(request.max_files, grant.max_files),
        remove=request.remove and grant.remove,
    )


def within_write_paths(capabilities: Capabilities, paths: Iterable[str]) -> Capabilities:
    """Return the part of capabilities that writes below these folders of the workspace only; it is never wider.

    Raises:
        ConfigurationError: a folder is no prefix that a capability file could have.
    """
    writing = capabilities.workspace_write
    if writing is None:
        return capabilities
    folders = WorkspaceWriteCapability(tuple(paths)).allowed_prefixes
    common = _common(writing.allowed_prefixes, folders, prefix_within)
    return replace(capabilities, workspace_write=replace(writing, allowed_prefixes=common))


def _merge_tools(request: ToolInvokeCapability, grant: ToolInvokeCapability) -> ToolInvokeCapability:
    both = tuple(pair for pair in request.aliases if pair in grant.aliases)
    return ToolInvokeCapability(both, _merge_rate(request.rate_limit, grant.rate_limit))


def _merge_rate(one: RateLimitConfig, other: RateLimitConfig) -> RateLimitConfig:
    return RateLimitConfig(
        min(one.requests_per_minute, other.requests_per_minute), min(one.requests_per_hour, other.requests_per_hour)
    )


def _merge_limits(request: ToolLimits, grant: ToolLimits, defaults: ResourceLimits) -> ToolLimits:
    asked, given = request.over(defaults), grant.over(defaults)
    least = {f.name: min(getattr(asked, f.name), getattr(given, f.name)) for f in fields(defaults)}
    return ToolLimits(**{name: value for name, value in least.items() if value != getattr(defaults, name)})


def _common(one: Sequence[str], other: Sequence[str], within: Callable[[str, str], bool]) -> tuple[str, ...]:
    both = [a if within(a, b) else b for a, b in product(one, other) if within(a, b) or within(b, a)]
    return tuple(widest(both, within))


def widest(items: Iterable[T], within: Callable[[T, T], bool]) -> list[T]:
    """Drop what lies within another item, so that the result stays as short as what it says."""
    kept: list[T] = []
    for item in items:
        if not any(within(item, other) for other in kept):
            kept = [other for other in kept if not within(other, item)]
            kept.append(item)
        if len(kept) > 4 * MAX_CAPABILITY_ENTRIES:
            break
    if len(kept) > MAX_CAPABILITY_ENTRIES:
        raise ConfigurationError(
            f"request and grant have more than {MAX_CAPABILITY_ENTRIES} entries in common",
            hint="write the grant with fewer, wider entries",
        )
    return kept
