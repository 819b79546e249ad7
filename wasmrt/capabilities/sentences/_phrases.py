"""Parts of capabilities in words, for the sentences that are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wasmrt.capabilities.model import (
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    LocationType,
    RateLimitConfig,
    ToolLimits,
)
from wasmrt.limits import KIB, MIB
from wasmrt.url import DEFAULT_PORTS

_UNITS = {
    "memory_bytes": "of memory",
    "fuel": "units of fuel",
    "timeout_seconds": "seconds for a call",
    "output_bytes": "of output",
    "table_elements": "elements in a table",
    "instances": "core instances",
}


def format_endpoint(entry: EndpointPattern) -> str:
    """Format an entry: `GET and POST https://api.example.com/v1/ and below`."""
    methods = join_words(entry.methods) if entry.methods else "send any request to"
    ports = entry.ports or tuple(DEFAULT_PORTS[scheme] for scheme in entry.schemes)
    shown = "" if not entry.ports else f":{join_words(map(str, ports), 'or')}"
    if len(entry.ports) > 1:
        shown = f" (ports {join_words(map(str, ports), 'or')})"
    host = entry.host_pattern if ":" not in entry.host_pattern else f"[{entry.host_pattern}]"
    scheme = "https://" if entry.schemes == ("https",) else "unencrypted http://"
    if len(entry.schemes) == 2:
        scheme = "https or unencrypted http://"
    path = f"{entry.path_prefix} and below" if entry.path_prefix else ", every path"
    return f"{methods} {scheme}{host}{shown}{path}"


def format_location(mapping: CredentialMapping) -> str:
    """Format a credential: `with your secret api_token in the Authorization header`."""
    return f"with your secret {mapping.secret_name} {_place(mapping.location)}{' if it is set' * mapping.optional}"


def format_credential(mapping: CredentialMapping) -> str:
    """Format a credential together with the requests that get it."""
    paths = f" under {join_words(mapping.path_patterns)}" if mapping.path_patterns else ""
    ports = f" at port {join_words(map(str, mapping.ports))}" if mapping.ports else ""
    return f"{format_location(mapping)}, for {join_words(mapping.host_patterns)}{ports}{paths}"


def _place(location: CredentialLocation) -> str:
    match location.type:
        case LocationType.BEARER:
            return "in the Authorization header"
        case LocationType.BASIC:
            return f"in the Authorization header as the password of {location.username!r}"
        case LocationType.HEADER:
            return f"in the {location.name} header"
        case LocationType.QUERY_PARAM:
            return f"in the query parameter {location.name}"
        case LocationType.URL_PATH:  # pragma: no branch - the last there is
            return f"in the URL in place of {{{location.placeholder}}}"


def format_prefix(prefix: str) -> str:
    """Format a workspace prefix: `files under context/`."""
    if not prefix:
        return "every file of the workspace"
    return f"files under {prefix}" if prefix.endswith("/") else f"{prefix} and files under {prefix}/"


def format_rate(rate: RateLimitConfig) -> str:
    """Format a rate limit: `60 times a minute and 1000 times an hour`."""
    return f"{rate.requests_per_minute} times a minute and {rate.requests_per_hour} times an hour"


def format_limits(limits: ToolLimits) -> str:
    """Format the limits that are set: `64 MiB of memory and 30 seconds for a call`."""
    return join_words(
        f"{format_bytes(value) if name.endswith('_bytes') else f'{value:,}'} {_UNITS[name]}"
        for name, value in limits.overrides().items()
    )


def format_bytes(size: int) -> str:
    """Format a size in the largest unit that divides it: `2 MiB`."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit:,} {name}"
    return f"{size:,} bytes"


def name_tools(names: Sequence[str], shown: int = 6) -> str:
    """Name tools, the first few of many: `get, list and 12 more`."""
    if len(names) <= shown:
        return join_words(names)
    return f"{', '.join(names[: shown - 1])} and {len(names) - shown + 1} more"


def join_words(words: Iterable[str], last: str = "and") -> str:
    """Join words as a sentence lists them: `a`, `a and b`, `a, b and c`."""
    listed = list(words)
    return f"{', '.join(listed[:-1])} {last} {listed[-1]}" if len(listed) > 1 else "".join(listed)
