"""Remove requests from the entries of an allowlist: an entry is split where entries can express the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from wasmrt.capabilities.kinds.http._section import entry_text
from wasmrt.capabilities.model import (
    ANY_HOST,
    METHODS,
    EndpointPattern,
    have_common_host,
    host_within,
    origins_of,
    with_origins,
)
from wasmrt.core.errors import ConfigurationError


def remove_requests(entry: EndpointPattern, gone: EndpointPattern) -> Iterator[EndpointPattern]:
    """Yield entries for exactly the requests of `entry` that are not in `gone`.

    By default, `gone` covers all schemes, ports and address ranges of its host. If it has ports, only these are
    removed. If its only scheme is http, only http requests are removed. If it is for every public host, only entries
    for public addresses are affected.

    Raises:
        ConfigurationError: no entries can express the rest; the hint has the nearest part that can be removed.
    """
    origins = origins_of(entry)
    theirs = frozenset(
        (scheme, port)
        for scheme, port in origins
        if (not gone.ports or port in gone.ports) and (scheme == "http" or gone.schemes != ("http",))
    )
    methods = _get_methods(entry) & _get_methods(gone)
    meets = have_common_host(entry.host_pattern, gone.host_pattern) and (
        gone.host_pattern != ANY_HOST or entry.public_only
    )
    if not (methods and theirs and meets and entry.path_pattern.intersect(gone.path_pattern)):
        yield entry
        return
    # SECURITY: the parts below contain no request of `gone`, and only requests of `entry`.
    if others := _get_methods(entry) - methods:
        yield entry.with_methods(*others)
    shared = entry if len(methods) == len(METHODS) else entry.with_methods(*methods)
    yield from with_origins(shared, origins - theirs)
    for part in with_origins(shared, theirs):
        yield from _without_path(part, gone)


def _without_path(part: EndpointPattern, gone: EndpointPattern) -> Iterator[EndpointPattern]:
    """Yield the rest of an entry whose methods and ports are all to be removed, at the hosts and paths of `gone`."""
    nearest, left = part, None
    common = part.path_pattern.intersect(gone.path_pattern)
    with suppress(ConfigurationError):
        left = part.path_pattern.subtract(gone.path_pattern)
        nearest = part if common is None else part.with_path_pattern(common)
    is_expressible = nearest.path_pattern == common
    if not is_expressible or not host_within(part.host_pattern, gone.host_pattern):
        raise ConfigurationError(
            f"http={entry_text(gone)} is only a part of a wider entry, and no entries can express the rest of "
            f"{part.as_line():.300}",
            hint=f"revoke 'http={entry_text(nearest)}', then --add the part that stays, or use --edit",
        )
    if left is not None:
        yield part.with_path_pattern(left)


def _get_methods(entry: EndpointPattern) -> frozenset[str]:
    return frozenset(entry.methods or METHODS)
