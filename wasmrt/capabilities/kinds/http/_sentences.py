"""Describe HTTP requests and credentials, and warn about risky ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wasmrt.capabilities._fields import join_path
from wasmrt.capabilities._phrases import join_words
from wasmrt.capabilities.kinds._capability import FileWarning
from wasmrt.capabilities.kinds.http._allowlist import explain_internal_host
from wasmrt.capabilities.kinds.http._reach import ANYWHERE, Reach, have_common_path, shared_paths
from wasmrt.capabilities.model import (
    ANY_HOST,
    METHODS,
    USUAL_PORTS,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    LocationType,
    intersect_hosts,
)
from wasmrt.core.url import DEFAULT_PORTS

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def format_host(host_pattern: str) -> str:
    """Format the host of an entry. Every public host is formatted as `ANY PUBLIC SITE`."""
    return ANYWHERE if host_pattern == ANY_HOST else host_pattern


def format_endpoint(entry: EndpointPattern) -> str:
    """Format an entry: `GET and POST https://api.example.com/v1/ and below`."""
    methods = join_words(entry.methods) if entry.methods else "send any request to"
    path = format_path(entry)
    ports = entry.ports or tuple(DEFAULT_PORTS[scheme] for scheme in entry.schemes)
    shown = "" if not entry.ports else f":{join_words(map(str, ports), 'or')}"
    if len(entry.ports) > 1:
        shown = f" (ports {join_words(map(str, ports), 'or')})"
    host = entry.host_pattern if ":" not in entry.host_pattern else f"[{entry.host_pattern}]"
    scheme = "https://" if entry.schemes == ("https",) else "unencrypted http://"
    if len(entry.schemes) == 2:
        scheme = "https or unencrypted http://"
    if entry.host_pattern == ANY_HOST:
        at = "" if entry.methods == () else "at "
        return f"{methods} {at}{ANYWHERE} over {scheme.removesuffix('://')}{shown}, {path}"
    public = ", at public addresses only" if entry.public_only else ""
    if host.startswith("*."):
        public += f", at every subdomain, but not {host.removeprefix('*.')} itself"
    return f"{methods} {scheme}{host}{shown}{path if path[0] == '/' else f', {path}'}{public}"


def format_path(entry: EndpointPattern) -> str:
    """Format the paths of an entry: `/v1/ and below`, or `every path`."""
    pattern = entry.path_pattern
    segment = "each * is any one segment" if pattern.names.count(None) > 1 else "* is any one segment"
    if pattern.most is not None:
        return f"{pattern.text} ({f'{segment}, nothing below' if pattern.has_wildcard else 'this path only'})"
    if not entry.path_prefix:
        return "every path"
    return f"{pattern.text} and below{f' ({segment})' if pattern.has_wildcard else ''}"


def format_location(mapping: CredentialMapping) -> str:
    """Format a credential: `with your secret api_token in the Authorization header`."""
    used = "signed with" if mapping.location.signs else "with"
    return (
        f"{used} your secret {mapping.secret_name} {_name_place(mapping.location)}{' if it is set' * mapping.optional}"
    )


def format_credential(mapping: CredentialMapping) -> str:
    """Format a credential with the requests that carry it."""
    paths = f" under {join_words(mapping.path_patterns)}" if mapping.path_patterns else ""
    ports = f" at port {join_words(map(str, mapping.ports))}" if mapping.ports not in ((), USUAL_PORTS) else ""
    return f"{format_location(mapping)}, for {join_words(mapping.host_patterns)}{ports}{paths}"


def _name_place(location: CredentialLocation) -> str:
    match location.type:
        case LocationType.BEARER:
            return "in the Authorization header"
        case LocationType.BASIC:
            return f"in the Authorization header as the password of {location.username!r}"
        case LocationType.HEADER | LocationType.HMAC_SHA256:
            return f"in the {location.name} header"
        case LocationType.QUERY_PARAM:
            return f"in the query parameter {location.name}"
        case LocationType.AWS_SIGV4:
            return f"for {location.service} of AWS in {location.region}"
        case LocationType.URL_PATH:  # pragma: no branch - the last type
            return f"in the URL instead of {{{location.placeholder}}}"


def http_sentences(found: Sequence[Reach], credentials: Iterable[CredentialMapping], bounds: str) -> Iterator[str]:
    """Yield a sentence for each allowlist entry, one for the limits, and one for each unused credential."""
    for reach in found:
        entry = reach.entry
        places = [format_location(m) + _format_reach(m, entry) for m in reach.credentials]
        if reach.refused:
            yield f"asks to {format_endpoint(entry)}, which is refused: {reach.refused}"
        else:
            yield f"may {format_endpoint(entry)}" + (f", {join_words(places)}" if places else "")
    allowed = [reach.entry for reach in found if not reach.refused]
    if any(not entry.methods for entry in allowed):
        yield f'"any request" means every method: {join_words(METHODS)}'
    if allowed:
        yield f"may send those requests {bounds}"
        yield (
            "may not send path segments . or .., also encoded, follow redirects, or reach non-public addresses "
            "unless exempt"
        )
    used = [mapping for reach in found for mapping in reach.credentials]
    for mapping in credentials:
        if mapping not in used:
            yield (
                f"lists your secret {mapping.secret_name} for {join_words(map(format_host, mapping.host_patterns))}, "
                "but may send no request that carries it"
            )


def _format_reach(mapping: CredentialMapping, entry: EndpointPattern) -> str:
    hosts = intersect_hosts(mapping.host_patterns, (entry.host_pattern,))
    at = "" if entry.host_pattern in hosts else f" at {join_words(hosts)}"
    ports = entry.get_ports("https")
    carrying = [str(port) for port in ports if port in mapping.ports]
    if len(carrying) < len(ports):
        at += f" at port {join_words(carrying, 'or')}"
    end = " (unencrypted requests that would carry it are refused)" if "http" in entry.schemes else ""
    shared = shared_paths(mapping, entry)
    if any(entry.path_pattern.within(path) for path in shared):
        return at + end
    return (
        f"{at}{' under' if entry.path is None else ', if the path is'} {join_words(path.text for path in shared)}{end}"
    )


def endpoint_warnings(allowlist: Sequence[EndpointPattern]) -> Iterator[FileWarning]:
    """Yield warnings about allowlist entries that are wider than usual."""
    if not allowlist:
        yield FileWarning("http.allowlist", "an empty list allows no request")
    for index, entry in enumerate(allowlist):
        at = join_path("http.allowlist", index)
        if entry.host_pattern == ANY_HOST:
            yield FileWarning(
                join_path(at, "any_public_host"),
                "the tool can send its inputs, and data that it reads, to any public site",
            )
        if entry.host_pattern.startswith("*."):
            yield FileWarning(join_path(at, "host"), f"'{entry.host_pattern}' covers all subdomains, at any depth")
        if "http" in entry.schemes:
            yield FileWarning(join_path(at, "scheme"), "requests over http can be read and modified in transit")
        if (problem := explain_internal_host(entry.host_pattern)) is not None:
            yield FileWarning(
                join_path(at, "host"),
                f"{problem}: requests are refused unless the operator exempts the address of the host"
                " (unsafe_allowed_networks)",
            )
        if entry.path is None and entry.path_prefix in (None, "/"):
            yield from _warn_about_every_path(at, entry)


def _warn_about_every_path(at: str, entry: EndpointPattern) -> Iterator[FileWarning]:
    # Most files allow reading all paths; RFC 9110 9.2.1 lists the methods that only read.
    changing = [method for method in entry.methods if method not in _SAFE]
    if not entry.methods:
        yield FileWarning(at, "every path and method of the host is allowed")
    elif changing:
        yield FileWarning(
            at,
            f'{join_words(changing)} requests to every path of the host are allowed; add "path_prefix" to narrow them',
        )


def credential_warnings(
    credentials: Iterable[CredentialMapping], allowlist: Sequence[EndpointPattern]
) -> Iterator[FileWarning]:
    """Yield warnings about credentials that are sent to more places than usual."""
    for mapping in credentials:
        at = join_path("http.credentials", mapping.name)
        if not mapping.path_patterns:
            yield FileWarning(at, 'without "path_patterns" every request to these hosts carries the secret')
        if any(pattern.startswith("*.") for pattern in mapping.host_patterns):
            yield FileWarning(join_path(at, "host_patterns"), "with a wildcard the secret is sent to all subdomains")
        entries = [
            entry
            for entry in allowlist
            if intersect_hosts(mapping.host_patterns, (entry.host_pattern,)) and have_common_path(mapping, entry)
        ]
        if not entries:
            yield FileWarning(at, "no entry of http.allowlist covers a request that carries this secret")
        elif not any("https" in entry.schemes for entry in entries):
            yield FileWarning(at, "secrets are only sent over https, but these hosts are only allowed over http")
