"""Says what a grant means for the person whose accounts and files it is about: powers, and what may go where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities._effects import READ_METHODS
from wasmrt.capabilities.model import ANY_HOST, METHODS, ToolInvokeCapability, WorkspaceCapability
from wasmrt.capabilities.sentences._phrases import ANYWHERE, format_host, join_words
from wasmrt.capabilities.sentences._reach import Reach
from wasmrt.capabilities.services import Service, powers_of


def meanings(allowed: Sequence[Reach], services: Iterable[Service]) -> list[str]:
    """Return a sentence for each power at a service, those that change something first."""
    known = tuple(services)
    found: dict[str, bool] = {}
    for reach in allowed:
        if reach.entry.host_pattern == ANY_HOST:
            found[f"can reach {ANYWHERE}, and tell whoever runs it all that it knows"] = True
        for words, changes in _powers(reach, known):
            found[words] = changes or found.get(words, False)
    return sorted(found, key=lambda words: not found[words])


def _powers(reach: Reach, services: Sequence[Service]) -> list[tuple[str, bool]]:
    entry, methods = reach.entry, frozenset(reach.entry.methods or METHODS)
    listed = []
    for service, power in powers_of(entry, services):
        words = power.as_you if reach.credentials else power.anybody
        if words:
            used = methods & frozenset(power.methods or METHODS)
            listed.append((f"can {words} ({service.name})", not used <= frozenset(READ_METHODS)))
    if listed or not reach.credentials:
        return listed
    secrets = join_words(dict.fromkeys(f"your secret {m.secret_name}" for m in reach.credentials))
    if methods <= frozenset(READ_METHODS):
        return [(f"can read what {secrets} opens at {entry.host_pattern}", False)]
    return [(f"can change what {secrets} opens at {entry.host_pattern}, in your name", True)]


def flows(capabilities: Capabilities, allowed: Sequence[Reach]) -> list[str]:
    """Return sentences that put together what a tool learns and where it can go.

    A request that only reads carries its path and query, so it counts as a way out like any other.
    """
    hosts = list(dict.fromkeys(format_host(reach.entry.host_pattern) for reach in allowed))
    ways_out = hosts + _tools(capabilities.tool_invoke)
    if not ways_out:
        return []
    read = _files(capabilities.workspace_read)
    told = f"what it is given {f'and what it reads {read} ' if read else ''}can go to {join_words(ways_out)}"
    private = list(dict.fromkeys(format_host(r.entry.host_pattern) for r in allowed if r.credentials))
    others = [way for way in ways_out if private != [way]]
    if not private or not others:
        return [told]
    ends = join_words(others) if len(private) == 1 else "every other of these"
    return [told, f"what it gets from {join_words(private, 'or')} with your secrets can go to {ends}"]


def _tools(invoke: ToolInvokeCapability | None) -> list[str]:
    return [] if invoke is None else list(dict.fromkeys(f"the tool {tool}" for _, tool in invoke.aliases))


def _files(workspace: WorkspaceCapability | None) -> str:
    if workspace is None or not workspace.allowed_prefixes:
        return ""
    if "" in workspace.allowed_prefixes:
        return "anywhere in the workspace"
    return f"under {join_words(workspace.allowed_prefixes)}"
