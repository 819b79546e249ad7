"""Parts of capabilities in words, for the sentences that are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wasmrt.capabilities.model import (
    ANY_HOST,
    USUAL_PORTS,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    LocationType,
    RateLimitConfig,
    ToolLimits,
)
from wasmrt.core.limits import GIB, KIB, MIB
from wasmrt.core.url import DEFAULT_PORTS

_UNITS = {
    "memory_bytes": "of memory",
    "fuel": "units of fuel",
    "timeout_seconds": "for a call",
    "output_bytes": "of output",
    "table_elements": "elements in a table",
    "instances": "core instances",
}
ANYWHERE = "ANY PUBLIC SITE"
_BILLION, _MILLION = 10**9, 10**6


def format_host(host_pattern: str) -> str:
    """Format a host of an entry, `ANY PUBLIC SITE` where it is every one."""
    return ANYWHERE if host_pattern == ANY_HOST else host_pattern


def format_endpoint(entry: EndpointPattern) -> str:
    """Format an entry: `GET and POST https://api.example.com/v1/ and below`."""
    methods = join_words(entry.methods) if entry.methods else "send any request to"
    if entry.path is not None:
        path = f"{entry.path} (this path only)"
    else:
        path = f"{entry.path_prefix} and below" if entry.path_prefix else ", every path"
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
        return f"{methods} {at}{ANYWHERE} over {scheme.removesuffix('://')}{shown}, {path.removeprefix(', ')}"
    public = ", at public addresses only" if entry.public_only else ""
    return f"{methods} {scheme}{host}{shown}{path}{public}"


def format_location(mapping: CredentialMapping) -> str:
    """Format a credential: `with your secret api_token in the Authorization header`."""
    used = "signed with" if mapping.location.signs else "with"
    return f"{used} your secret {mapping.secret_name} {_place(mapping.location)}{' if it is set' * mapping.optional}"


def format_credential(mapping: CredentialMapping) -> str:
    """Format a credential together with the requests that get it."""
    paths = f" under {join_words(mapping.path_patterns)}" if mapping.path_patterns else ""
    ports = f" at port {join_words(map(str, mapping.ports))}" if mapping.ports not in ((), USUAL_PORTS) else ""
    return f"{format_location(mapping)}, for {join_words(mapping.host_patterns)}{ports}{paths}"


def _place(location: CredentialLocation) -> str:
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
        case LocationType.URL_PATH:  # pragma: no branch - the last there is
            return f"in the URL in place of {{{location.placeholder}}}"


def format_prefix(prefix: str) -> str:
    """Format a workspace prefix: `files under context/`."""
    if not prefix:
        return "every file of the workspace"
    return f"files under {prefix}" if prefix.endswith("/") else f"{prefix} and files under {prefix}/"


def format_rate(rate: RateLimitConfig) -> str:
    """Format a rate limit: `60 times a minute and 1000 times an hour`."""
    return f"{rate.requests_per_minute:,} times a minute and {rate.requests_per_hour:,} times an hour"


def format_limits(limits: ToolLimits) -> str:
    """Format the limits that are set: `64 MiB of memory and 30 seconds for a call`."""
    return join_words(f"{format_number(name, value)} {_UNITS[name]}" for name, value in limits.overrides().items())


def format_number(name: str, value: float) -> str:
    """Format the value of a setting in units for people, by the unit that its name ends with."""
    if name.endswith("_bytes"):
        return format_bytes(int(value))
    if name.endswith("_seconds"):
        return format_seconds(value)
    return format_count(int(value))


def format_count(count: int) -> str:
    """Format a large number: `500 million`."""
    for unit, name in ((_BILLION, "billion"), (_MILLION, "million")):
        if count >= unit:
            return f"{_rounded(count / unit)} {name}"
    return f"{count:,}"


def format_seconds(seconds: float) -> str:
    """Format a time: `2 minutes`, `30 seconds`."""
    for unit, name in ((3600, "hour"), (60, "minute")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g} {name}{'s' * (seconds != unit)}"
    return f"{seconds:g} second{'s' * (seconds != 1)}"


def format_bytes(size: int) -> str:
    """Format a size in a unit for people: `2 MiB`, `about 1.2 MiB`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{_rounded(size / unit)} {name}"
    return f"{size:,} byte{'s' * (size != 1)}"


def _rounded(value: float) -> str:
    """Format a number to a tenth; one that this changes is `about`."""
    near = round(value, 1)
    return f"{'' if near == value else 'about '}{near:,.15g}"


def name_tools(names: Sequence[str], shown: int = 6) -> str:
    """Name tools, the first few of many: `get, list and 12 more`."""
    if len(names) <= shown:
        return join_words(names)
    return f"{', '.join(names[: shown - 1])} and {len(names) - shown + 1} more"


def join_words(words: Iterable[str], last: str = "and") -> str:
    """Join words as a sentence lists them: `a`, `a and b`, `a, b and c`."""
    listed = list(words)
    return f"{', '.join(listed[:-1])} {last} {listed[-1]}" if len(listed) > 1 else "".join(listed)
