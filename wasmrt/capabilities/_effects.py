"""Effects of a grant: an upper bound of what a sandboxed tool can do, and the part of a grant that has no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol, TypeVar

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities.model import EndpointPattern, HttpCapability, WorkspaceWriteCapability
from wasmrt.core.effects import Effect


class Granted(Protocol):
    """A tool, as far as its grant goes."""

    @property
    def capabilities(self) -> Capabilities:
        """Its grant."""


T = TypeVar("T", bound=Granted)
READ_METHODS = ("GET", "HEAD")
"""Methods of a request that only reads (RFC 9110 9.2.1); OPTIONS and TRACE are left out, since no tool needs them."""


def effects_of(grant: Capabilities) -> frozenset[Effect]:
    """Return every effect that a call under `grant` can have. Sections of single tools are not looked at.

    Tools that it may invoke are one effect, whatever they do: they have grants and effects of their own.
    """
    effects = set()
    if grant.http is not None and grant.http.allowlist:
        effects.add(Effect.NETWORK)
        if not all(map(_only_reads, grant.http.allowlist)):
            effects.add(Effect.EXTERNAL_WRITE)
        if grant.http.credentials:
            effects.add(Effect.USE_SECRET)
    if grant.workspace_read is not None and grant.workspace_read.allowed_prefixes:
        effects.add(Effect.READ_FILESYSTEM)
    if grant.workspace_write is not None and grant.workspace_write.allowed_prefixes:
        effects.add(Effect.WRITE_FILESYSTEM)
        if grant.workspace_write.remove:
            effects.add(Effect.DELETE_FILESYSTEM)
    if grant.secrets is not None and grant.secrets.allowed_names:
        effects.add(Effect.USE_SECRET)
    if grant.tool_invoke is not None and grant.tool_invoke.aliases:
        effects.add(Effect.INVOKE_TOOL)
    return frozenset(effects)


def reached(
    grant: Capabilities, prepared: Callable[[str], T | None], seen: set[str] | None = None
) -> Iterator[tuple[str, T]]:
    """Yield each tool that a grant can invoke, by others too, with its name: each once."""
    seen = set() if seen is None else seen
    for _, name in () if grant.tool_invoke is None else grant.tool_invoke.aliases:
        if name not in seen and (tool := prepared(name)) is not None:
            seen.add(name)
            yield name, tool
            yield from reached(tool.capabilities, prepared, seen)


def within_effects(grant: Capabilities, effects: frozenset[Effect]) -> Capabilities:
    """Return the part of `grant` whose calls can have no effect but these; never wider than `grant`."""
    return replace(
        grant,
        http=_http(grant.http, effects),
        workspace_read=grant.workspace_read if Effect.READ_FILESYSTEM in effects else None,
        workspace_write=_writing(grant.workspace_write, effects),
        secrets=grant.secrets if Effect.USE_SECRET in effects else None,
        tool_invoke=grant.tool_invoke if Effect.INVOKE_TOOL in effects else None,
    )


def _writing(writing: WorkspaceWriteCapability | None, effects: frozenset[Effect]) -> WorkspaceWriteCapability | None:
    if writing is None or Effect.WRITE_FILESYSTEM not in effects:
        return None
    return writing if Effect.DELETE_FILESYSTEM in effects else replace(writing, remove=False)


def _http(http: HttpCapability | None, effects: frozenset[Effect]) -> HttpCapability | None:
    # SECURITY: a write is a request too. Without the network there is none.
    if http is None or Effect.NETWORK not in effects:
        return None
    if Effect.USE_SECRET not in effects:
        http = replace(http, credentials=())
    if Effect.EXTERNAL_WRITE not in effects:
        http = replace(http, allowlist=tuple(read for entry in http.allowlist if (read := _reading(entry)) is not None))
    return http


def _only_reads(entry: EndpointPattern) -> bool:
    return bool(entry.methods) and set(entry.methods) <= set(READ_METHODS)  # no methods means all


def _reading(entry: EndpointPattern) -> EndpointPattern | None:
    methods = tuple(method for method in READ_METHODS if not entry.methods or method in entry.methods)
    return replace(entry, methods=methods) if methods else None
