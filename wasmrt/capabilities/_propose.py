"""Puts entries together: the grant that a person might give after watching a tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities.lattice import widest
from wasmrt.capabilities.model import EndpointPattern, endpoint_within, name_within, prefix_within
from wasmrt.core.model import Addition, GrantList


def extended(base: Capabilities, additions: Iterable[Addition]) -> Capabilities:
    """Return capabilities with entries added to them, as few as say the same; all that they had stays as it is."""
    for addition in _additions(_narrowest(additions)):
        base = base.with_addition(addition)
    return base


def _additions(capabilities: Capabilities) -> Iterator[Addition]:
    http, reading, writing = capabilities.http, capabilities.workspace_read, capabilities.workspace_write
    secrets, tools = capabilities.secrets, capabilities.tool_invoke
    for entry in () if http is None else http.allowlist:
        yield Addition(GrantList.HTTP, entry.as_line())
    for prefix in () if reading is None else reading.allowed_prefixes:
        yield Addition(GrantList.WORKSPACE, json.dumps(prefix))
    for prefix in () if writing is None else writing.allowed_prefixes:
        yield Addition(GrantList.WORKSPACE_WRITE, json.dumps(prefix))
    for name in () if secrets is None else secrets.allowed_names:
        yield Addition(GrantList.SECRETS, json.dumps(name))
    for alias, tool in () if tools is None else tools.aliases:
        yield Addition(GrantList.TOOLS, json.dumps({alias: tool}))


def _narrowest(additions: Iterable[Addition]) -> Capabilities:
    asked = [Capabilities.none().with_addition(addition) for addition in additions]
    entries = [entry for one in asked if one.http for entry in one.http.allowlist]
    prefixes = [prefix for one in asked if one.workspace_read for prefix in one.workspace_read.allowed_prefixes]
    written = [prefix for one in asked if one.workspace_write for prefix in one.workspace_write.allowed_prefixes]
    names = [name for one in asked if one.secrets for name in one.secrets.allowed_names]
    aliases = {alias: tool for one in asked if one.tool_invoke for alias, tool in one.tool_invoke.aliases}
    proposal = Capabilities.none()
    if entries:
        proposal = proposal.with_http(_with_shared_methods(entries))
    if prefixes:
        proposal = proposal.with_workspace_read(widest(prefixes, prefix_within))
    if written:
        proposal = proposal.with_workspace_write(widest(written, prefix_within))
    if names:
        proposal = proposal.with_secrets(widest(names, name_within))
    return proposal.with_tool_invoke(aliases) if aliases else proposal


def _with_shared_methods(entries: Iterable[EndpointPattern]) -> list[EndpointPattern]:
    """Return one entry for each place, with every method that was asked for there."""
    methods: dict[EndpointPattern, list[str]] = {}
    for entry in entries:
        methods.setdefault(entry.with_methods(), []).extend(entry.methods)
    return widest((place.with_methods(*used) for place, used in methods.items()), endpoint_within)
