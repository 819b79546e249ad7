"""Compare entries and credentials: check whether one covers another, and compute the part that both cover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from wasmrt.capabilities.model._checks import remove_covered
from wasmrt.capabilities.model._credential import USUAL_PORTS, CredentialMapping
from wasmrt.capabilities.model._endpoint import ANY_HOST, METHODS, EndpointPattern
from wasmrt.capabilities.model._path import PathPattern, path_pattern
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES
from wasmrt.core.url import DEFAULT_PORTS


def host_within(inner: str, outer: str) -> bool:
    """Return whether `outer` covers every host that `inner` covers."""
    if inner == outer or outer == ANY_HOST:
        return True
    return outer.startswith("*.") and inner.removeprefix("*").endswith(outer[1:])


def endpoint_within(inner: EndpointPattern, outer: EndpointPattern) -> bool:
    """Return whether `outer` covers every request that `inner` covers."""
    return (
        host_within(inner.host_pattern, outer.host_pattern)
        and inner.path_pattern.within(outer.path_pattern)
        and inner.public_only >= outer.public_only
        and _get_methods(inner) <= _get_methods(outer)
        and origins_of(inner) <= origins_of(outer)
    )


def intersect_ports(one: CredentialMapping, other: CredentialMapping) -> tuple[int, ...] | None:
    """Return the ports to which both credentials are sent, or None if there is no such port."""
    if one.ports == other.ports:
        return one.ports
    return tuple(sorted(set(one.ports or USUAL_PORTS) & set(other.ports or USUAL_PORTS))) or None


def credential_within(inner: CredentialMapping, outer: CredentialMapping) -> bool:
    """Return whether every request that carries `inner` also carries `outer`'s secret in the same location."""
    return (
        (inner.secret_name, inner.location) == (outer.secret_name, outer.location)
        and all(any(host_within(i, o) for o in outer.host_patterns) for i in inner.host_patterns)
        and (
            not outer.path_patterns
            or (bool(inner.path_patterns) and all(any(i.within(o) for o in outer.paths) for i in inner.paths))
        )
        and inner.optional <= outer.optional
        and (inner.ports == outer.ports or set(inner.ports or USUAL_PORTS) <= set(outer.ports or USUAL_PORTS))
    )


def intersect_endpoints(one: EndpointPattern, other: EndpointPattern) -> list[EndpointPattern]:
    """Return entries for the requests that both entries cover."""
    host = _choose_narrower(one.host_pattern, other.host_pattern)
    if host is None:
        return []
    methods = tuple(m for m in METHODS if m in _get_methods(one) & _get_methods(other))
    paths = one.path_pattern.intersect(other.path_pattern)
    if not methods or paths is None:
        return []
    prefix, path = (paths.text, None) if paths.most is None else (None, paths.text)
    public = one.public_only or other.public_only
    every = () if len(methods) == len(METHODS) else methods
    both = EndpointPattern(host, prefix, every, path=path, public_only=public)
    return with_origins(both, origins_of(one) & origins_of(other))


def with_origins(entry: EndpointPattern, origins: frozenset[tuple[str, int]]) -> list[EndpointPattern]:
    """Return entries like `entry` for these schemes and ports."""
    by_ports: dict[tuple[int, ...], list[str]] = {}
    for scheme in sorted({scheme for scheme, _ in origins}, reverse=True):
        ports = tuple(sorted(port for s, port in origins if s == scheme))
        default = (DEFAULT_PORTS[scheme],)
        by_ports.setdefault(() if ports == default else ports, []).append(scheme)
    return [replace(entry, ports=ports, schemes=tuple(schemes)) for ports, schemes in by_ports.items()]


def origins_of(entry: EndpointPattern) -> frozenset[tuple[str, int]]:
    """Return the schemes of an entry, each with its ports."""
    return frozenset((scheme, port) for scheme in entry.schemes for port in entry.get_ports(scheme))


def have_common_host(one: str, other: str) -> bool:
    """Return whether some host matches both patterns."""
    return _choose_narrower(one, other) is not None


def intersect_credentials(
    request: Iterable[CredentialMapping], grant: Sequence[CredentialMapping]
) -> tuple[CredentialMapping, ...]:
    """Return the credentials that are in both lists, limited to the hosts, paths and ports that both lists allow."""
    merged: dict[tuple[object, ...], CredentialMapping] = {}
    names: set[str] = set()
    for asked, given in product(request, grant):
        if (asked.secret_name, asked.location) != (given.secret_name, given.location):
            continue
        hosts = intersect_hosts(asked.host_patterns, given.host_patterns)
        paths = intersect_paths(asked.path_patterns, given.path_patterns)
        ports = intersect_ports(asked, given)
        optional = asked.optional and given.optional
        same = (asked.secret_name, asked.location, hosts, paths, ports, optional)
        if hosts and paths is not None and ports is not None and same not in merged:
            name = _find_free_name(asked.name, names)
            names.add(name)
            merged[same] = replace(
                asked, host_patterns=hosts, path_patterns=paths, ports=ports, optional=optional, name=name
            )
    return tuple(merged.values())


def _find_free_name(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    return next(free for n in range(2, MAX_CAPABILITY_ENTRIES**2) if (free := f"{name[:120]}-{n}") not in taken)


def intersect_hosts(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hosts that both lists of patterns cover."""
    first, second = frozenset(one), frozenset(other)
    within = [host for host in one if not second.isdisjoint(_list_covering_patterns(host))]
    within += [host for host in other if not first.isdisjoint(_list_covering_patterns(host))]
    return tuple(dict.fromkeys(within))


def _list_covering_patterns(host: str) -> list[str]:
    """Return `host`, which may be a pattern, and every `*.` pattern that covers `host`."""
    labels = host.removeprefix("*.").split(".")
    return [host, *("*." + ".".join(labels[at:]) for at in range(1, len(labels)))]


def intersect_paths(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return prefixes for the paths that both lists cover, or None for no path. An empty list covers every path.

    Raises:
        ConfigurationError: more prefixes are needed than a credential may have.
    """
    if not one or not other or one == other:
        return one or other
    mine, theirs = ([path_pattern(text, is_exact=False) for text in side] for side in (one, other))
    both = (common for a, b in product(mine, theirs) if (common := a.intersect(b)) is not None)
    return tuple(each.text for each in remove_covered(both, PathPattern.within)) or None


def _get_methods(entry: EndpointPattern) -> frozenset[str]:
    return frozenset(entry.methods or METHODS)


def _choose_narrower(one: str, other: str) -> str | None:
    if host_within(one, other):
        return one
    return other if host_within(other, one) else None
