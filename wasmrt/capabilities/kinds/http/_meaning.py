"""Describe how a tool can affect the user's accounts at known services."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wasmrt.capabilities.kinds.http._reach import ANYWHERE, Reach
from wasmrt.capabilities.model import (
    ANY_HOST,
    METHODS,
    READ_METHODS,
    CredentialMapping,
    EndpointPattern,
    endpoint_within,
)
from wasmrt.capabilities.services import Power, Service, powers_of

_READING = frozenset(READ_METHODS)


def meanings(allowed: Sequence[Reach], services: Iterable[Service]) -> list[str]:
    """Return a sentence for each permission at a service. Permissions to change data come first."""
    known = tuple(services)
    found: dict[str, bool] = {}
    for reach in allowed:
        if reach.entry.host_pattern == ANY_HOST:
            found[f"can reach {ANYWHERE}, and send it all data that the tool has"] = True
        for words, changes in _powers(reach, known):
            found[words] = changes or found.get(words, False)
    return sorted(found, key=lambda words: not found[words])


def _powers(reach: Reach, services: Sequence[Service]) -> Iterator[tuple[str, bool]]:
    """Yield a phrase for each permission that requests of an entry have, and True if they can change data."""
    entry = reach.entry
    for mapping, part in reach.carried:
        known = [(service, power, power.as_you) for service, power in powers_of(part, services) if power.as_you]
        yield from _list_powers(part, known)
        if not known:
            yield _describe_unknown_service(mapping, part)
    if not any(endpoint_within(entry, part) for _, part in reach.carried):
        found = powers_of(entry, services)
        yield from _list_powers(entry, [(service, power, power.anybody) for service, power in found if power.anybody])


def _list_powers(entry: EndpointPattern, powers: Iterable[tuple[Service, Power, str]]) -> Iterator[tuple[str, bool]]:
    methods = frozenset(entry.methods or METHODS)
    for service, power, words in powers:
        yield f"can {words} ({service.name})", not methods & frozenset(power.methods or METHODS) <= _READING


def _describe_unknown_service(mapping: CredentialMapping, part: EndpointPattern) -> tuple[str, bool]:
    secret = f"your secret {mapping.secret_name}"
    if frozenset(part.methods or METHODS) <= _READING:
        return f"can read what {secret} opens at {part.host_pattern}", False
    return f"can change what {secret} opens at {part.host_pattern}, in your name", True
