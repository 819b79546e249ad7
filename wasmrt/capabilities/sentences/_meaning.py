"""Says what a grant means for the person whose accounts and files it is about: powers, and what may go where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities._effects import READ_METHODS
from wasmrt.capabilities.model import (
    ANY_HOST,
    METHODS,
    EndpointPattern,
    ToolInvokeCapability,
    WorkspaceCapability,
    endpoint_within,
)
from wasmrt.capabilities.sentences._phrases import ANYWHERE, format_host, join_words
from wasmrt.capabilities.sentences._reach import Reach
from wasmrt.capabilities.services import Power, Service, powers_of

_READING = frozenset(READ_METHODS)


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


def _powers(reach: Reach, services: Sequence[Service]) -> Iterator[tuple[str, bool]]:
    """Yield what requests of an entry can do, and whether it changes something."""
    entry = reach.entry
    for part in reach.carried:
        known = [(service, power, power.as_you) for service, power in powers_of(part, services) if power.as_you]
        yield from _told(part, known)
        if not known:
            yield _at_unknown(part, reach)
    if not any(endpoint_within(entry, part) for part in reach.carried):
        found = powers_of(entry, services)
        yield from _told(entry, [(service, power, power.anybody) for service, power in found if power.anybody])


def _told(entry: EndpointPattern, powers: Iterable[tuple[Service, Power, str]]) -> Iterator[tuple[str, bool]]:
    methods = frozenset(entry.methods or METHODS)
    for service, power, words in powers:
        yield f"can {words} ({service.name})", not methods & frozenset(power.methods or METHODS) <= _READING


def _at_unknown(part: EndpointPattern, reach: Reach) -> tuple[str, bool]:
    secrets = join_words(dict.fromkeys(f"your secret {mapping.secret_name}" for mapping in reach.credentials))
    if frozenset(part.methods or METHODS) <= _READING:
        return f"can read what {secrets} opens at {part.host_pattern}", False
    return f"can change what {secrets} opens at {part.host_pattern}, in your name", True


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
