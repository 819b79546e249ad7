"""Known services: find the descriptions of allowlist entries and of login scopes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from wasmrt.capabilities.model import ANY_HOST, METHODS, EndpointPattern, PathPattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """A permission at a service, described by phrases such as `read your mail`, as in `can read your mail`."""

    methods: tuple[str, ...] = ()
    """The methods of the requests; empty for all methods."""
    paths: tuple[PathPattern, ...] = ()
    """The paths of the requests; empty for all paths."""
    as_you: str = ""
    """The phrase for requests with a credential; empty if such requests have no effect."""
    anybody: str = ""
    """The phrase for requests without a credential; empty if such requests have no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A well-known service."""

    name: str
    hosts: tuple[str, ...]
    """Host patterns. `*` matches one label, but at the beginning of a pattern one or more labels."""
    can: tuple[Power, ...] = ()
    login: tuple[str, ...] = ()
    """The hosts of the authorization URLs whose scopes are in `scopes`."""
    scopes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The scopes of a login, each with a phrase such as `read your mail`."""


def iter_powers(entry: EndpointPattern, services: Iterable[Service]) -> Iterator[tuple[Service, Power]]:
    """Yield each permission at a service that some request of `entry` uses, in the order of the services.

    An entry for every public host yields nothing, because its destination is unknown.
    """
    if entry.host_pattern == ANY_HOST:
        return
    methods = frozenset(entry.methods or METHODS)
    for service in services:
        if not any(_have_common_host(host, entry.host_pattern) for host in service.hosts):
            continue
        words = _list_words(service)
        for power in service.can:
            if power.methods and methods.isdisjoint(power.methods):
                continue
            if not power.paths or any(_have_common_path(path, entry.path_pattern, words) for path in power.paths):
                yield service, power


def describe_scope(host: str, scope: str, services: Iterable[Service]) -> str | None:
    """Return a description of a scope at the service whose login page is at `host`, or None if the scope is unknown."""
    found = (service.scopes.get(scope) for service in services if host in service.login)
    return next((words for words in found if words), None)


def _have_common_host(known: str, granted: str) -> bool:
    """Return whether some host matches both patterns."""
    one, other = known.split(".")[::-1], granted.split(".")[::-1]
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        open_a, open_b = a == "*" and at == len(one) - 1, b == "*" and at == len(other) - 1
        if open_a or open_b:
            return True  # the wildcard covers the remaining labels, of which each side has at least one
        if a != b and a != "*":
            return False
    return len(one) == len(other)


def _list_words(service: Service) -> frozenset[tuple[int, str]]:
    """Return the literal segments in the paths of a service, each with its position.

    A `*` in another path of the service does not match these segments.
    """
    paths = (path for power in service.can for path in power.paths)
    return frozenset((at, name) for path in paths for at, name in enumerate(path.names) if name is not None)


def _have_common_path(power: PathPattern, granted: PathPattern, words: frozenset[tuple[int, str]]) -> bool:
    """Return whether some path matches both patterns, for a service that ignores a slash at the end of a path."""
    known, names = _without_end(power.names), _without_end(granted.names)
    if power.most is not None and len(names) > len(known):
        return False
    if granted.most is not None and len(names) < len(known):
        return False
    return all(
        theirs is None or mine == theirs or (mine is None and (at, theirs) not in words)
        for at, (mine, theirs) in enumerate(zip(known, names, strict=False))
    )


def _without_end(names: tuple[str | None, ...]) -> tuple[str | None, ...]:
    return names[:-1] if names[-1:] == ("",) else names
