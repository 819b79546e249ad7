"""Determine the requests that a grant effectively allows, without the requests that the runtime would refuse.

Sentences describe how the requests can affect the user's accounts at known services.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wasmrt.capabilities.kinds.http._allowlist import explain_internal_host
from wasmrt.capabilities.model import (
    ANY_HOST,
    METHODS,
    READ_METHODS,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    LocationType,
    PathPattern,
    endpoint_within,
    intersect_endpoints,
    intersect_hosts,
)
from wasmrt.capabilities.services import Power, Service, iter_powers
from wasmrt.core.url import Network

ANYWHERE = "ANY PUBLIC SITE"


@dataclass(frozen=True, slots=True)
class Reach:
    """One entry of an allowlist, with the credentials that its requests carry."""

    entry: EndpointPattern
    """The entry, restricted to requests that the runtime does not refuse."""
    credentials: tuple[CredentialMapping, ...]
    carried: tuple[tuple[CredentialMapping, EndpointPattern], ...] = ()
    """Each credential with a part of the entry whose requests carry it."""
    refused: str = ""
    """The reason why all requests of the entry are refused; empty if the runtime allows some of them."""


def iter_reach(
    allowlist: Iterable[EndpointPattern], credentials: Sequence[CredentialMapping], networks: Sequence[Network]
) -> Iterator[Reach]:
    """Yield each entry of an allowlist with the credentials that its requests carry, or the reason for their refusal.

    `networks` are the internal networks that the operator exempts from the address check.
    """
    for entry in allowlist:
        problem = explain_internal_host(entry.host_pattern, () if entry.public_only else networks)
        if problem is not None:
            step = "" if networks or entry.public_only else ", unless an operator exempts its address"
            yield Reach(entry, (), refused=f"{problem}{step}")
            continue
        exposed = next((m for m in credentials if _allows_plain_http_with(m, entry)), None)
        if exposed is not None and entry.schemes == ("http",):
            yield Reach(entry, (), refused=f"your secret {exposed.secret_name} would be sent unencrypted")
            continue
        if exposed is not None:
            entry = replace(entry, schemes=("https",))  # the runtime refuses the http requests of this entry
        sent = tuple(m for m in credentials if goes_with(m, entry))
        yield Reach(entry, sent, tuple((m, part) for m in sent for part in _list_carrying_parts(m, entry)))


def goes_with(mapping: CredentialMapping, entry: EndpointPattern) -> bool:
    """Return whether some request that the entry allows carries the credential."""
    return (
        bool(intersect_hosts(mapping.host_patterns, (entry.host_pattern,)))
        and not set(mapping.ports).isdisjoint(entry.get_ports("https"))
        and have_common_path(mapping, entry)
    )


def have_common_path(mapping: CredentialMapping, entry: EndpointPattern) -> bool:
    """Return whether requests to some path of the entry carry the credential."""
    return any(_has_place(mapping.location, path) for path in shared_paths(mapping, entry))


def shared_paths(mapping: CredentialMapping, entry: EndpointPattern) -> list[PathPattern]:
    """Return patterns for the paths that both the entry and the credential cover."""
    paths = (path.intersect(entry.path_pattern) for path in mapping.paths)
    return list(dict.fromkeys(path for path in paths if path is not None))


def _has_place(location: CredentialLocation, path: PathPattern) -> bool:
    """Return whether a path that matches the pattern can contain the placeholder for the secret."""
    if location.type is not LocationType.URL_PATH or path.most is None or path.has_wildcard:
        return True
    return any(f"{{{location.placeholder}}}" in name for name in path.names if name is not None)


def _allows_plain_http_with(mapping: CredentialMapping, entry: EndpointPattern) -> bool:
    """Return whether every http request of the entry would carry the credential. Such requests are refused."""
    if "http" not in entry.schemes or mapping.location.type is LocationType.URL_PATH:
        return False
    return any(endpoint_within(entry, cover) for cover in _covers(mapping, entry))


def _covers(mapping: CredentialMapping, entry: EndpointPattern) -> list[EndpointPattern]:
    """Return copies of `entry`, one for each combination of a host and a path of the credential."""
    paths = mapping.path_patterns or (None,)
    return [
        replace(entry, host_pattern=host, path=None, path_prefix=path)
        for host in mapping.host_patterns
        for path in paths
    ]


def _list_carrying_parts(mapping: CredentialMapping, entry: EndpointPattern) -> list[EndpointPattern]:
    return [part for cover in _covers(mapping, entry) for part in intersect_endpoints(entry, cover)]


_READING = frozenset(READ_METHODS)


def describe_meanings(allowed: Sequence[Reach], services: Iterable[Service]) -> list[str]:
    """Return a sentence for each permission at a service. Permissions to change data come first."""
    known = tuple(services)
    found: dict[str, bool] = {}
    for reach in allowed:
        if reach.entry.host_pattern == ANY_HOST:
            found[f"can reach {ANYWHERE}, and send it all data that the tool has"] = True
        for words, changes in _iter_powers(reach, known):
            found[words] = changes or found.get(words, False)
    return sorted(found, key=lambda words: not found[words])


def _iter_powers(reach: Reach, services: Sequence[Service]) -> Iterator[tuple[str, bool]]:
    """Yield a phrase for each permission that requests of an entry have, and True if they can change data."""
    entry = reach.entry
    for mapping, part in reach.carried:
        known = [(service, power, power.as_you) for service, power in iter_powers(part, services) if power.as_you]
        yield from _list_powers(part, known)
        if not known:
            yield _describe_unknown_service(mapping, part)
    if not any(endpoint_within(entry, part) for _, part in reach.carried):
        found = iter_powers(entry, services)
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
