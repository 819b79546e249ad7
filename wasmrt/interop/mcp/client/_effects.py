"""Effects of a server's tools: assigned by how far the server is trusted, within what it was given."""

from __future__ import annotations

import re

from wasmrt.core.effects import Effect
from wasmrt.core.traits import SubagentAccess, Tightening, Traits
from wasmrt.interop.mcp.client._definition import Definition
from wasmrt.interop.mcp.client._settings import McpServerConfig, Trust

SAFE_KEYWORDS = frozenset({"read", "list", "get", "search", "find", "query", "fetch", "view", "show", "count"})
"""Words of which the name of a tool has one, for a server of the community's to offer it."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_CHANGING = {Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM, Effect.EXTERNAL_WRITE}
_DENIED = Tightening(subagent_access=SubagentAccess.DENIED)


def has_safe_name(name: str) -> bool:
    """Tell whether the name of a tool says that it reads: one of its words does, whole."""
    return any(word.lower() in SAFE_KEYWORDS for word in _WORD.findall(name))


def possible_effects(server: McpServerConfig) -> frozenset[Effect]:
    """Return everything that a server can do with what it was given, whatever it says of itself."""
    if server.url:
        found = {Effect.NETWORK, Effect.EXTERNAL_WRITE}
        return frozenset(found | ({Effect.USE_SECRET} if server.bearer or server.oauth is not None else set()))
    found = {Effect.READ_FILESYSTEM, Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS}
    if server.write:
        found |= {Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM}
    if server.network or server.hosts:
        found |= {Effect.NETWORK, Effect.EXTERNAL_WRITE}
    return frozenset(found | ({Effect.USE_SECRET} if server.secret_env else set()))


def assigned_traits(server: McpServerConfig, tool: Definition) -> Traits:
    """Return the traits of a tool by the trust in its server.

    Only of a local server counts what a tool says of itself: one that says it reads is taken not to change anything.
    """
    possible = possible_effects(server)
    if server.trust is not Trust.LOCAL:
        return Traits(effects=possible, declared=True, tightening=_DENIED)
    held = possible - {Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS}
    if tool.hint("readOnlyHint"):
        return Traits(effects=held - _CHANGING or frozenset({Effect.READ_FILESYSTEM}), declared=True)
    if not held & _CHANGING:
        # It says that it changes something, if only something of its own.
        held |= {Effect.WRITE_FILESYSTEM}
    return Traits(effects=held, declared=True)


def asks_always(server: McpServerConfig, tool: Definition) -> bool:
    """Tell whether a person is asked about each call, whatever the effects are."""
    if server.trust is not Trust.LOCAL:
        return True
    return tool.annotations.get("destructiveHint", False) and not tool.hint("readOnlyHint")
