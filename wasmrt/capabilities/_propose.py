"""Puts together what denials suggest: the grant that a person might give after watching a tool."""

from __future__ import annotations

from collections.abc import Iterable

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities.lattice import widest
from wasmrt.capabilities.model import EndpointPattern, endpoint_within, name_within, prefix_within
from wasmrt.model import Addition, Decision


def propose(decisions: Iterable[Decision]) -> Capabilities:
    """Return the narrowest capabilities that would have allowed everything that was refused for want of a grant.

    What no capability file can allow, such as a private address or a broken URL, is left out.
    """
    additions = [d.suggestion for d in decisions if not d.allowed and isinstance(d.suggestion, Addition)]
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
