"""Says what capabilities mean, in sentences a person can agree to."""

from __future__ import annotations

from collections.abc import Iterable

from wasmrt.capabilities._cover import common_hosts, common_paths
from wasmrt.capabilities._credential import CredentialLocation, CredentialMapping, LocationType
from wasmrt.capabilities._endpoint import EndpointPattern
from wasmrt.capabilities._model import Capabilities, ToolLimits
from wasmrt.capabilities._powers import HttpCapability, RateLimitConfig
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


def explain(capabilities: Capabilities) -> tuple[str, ...]:
    """Say everything a tool may do, a sentence for each power, ending with what it may not."""
    said: list[str] = []
    if capabilities.http is not None:
        said += _say_http(capabilities.http)
    if (workspace := capabilities.workspace_read) is not None and workspace.allowed_prefixes:
        said += [f"may read {say_prefix(prefix)}" for prefix in workspace.allowed_prefixes]
    if (secrets := capabilities.secrets) is not None and secrets.allowed_names:
        said.append(f"may ask whether these secrets are set, never what they are: {join(secrets.allowed_names)}")
    if (tools := capabilities.tool_invoke) is not None and tools.aliases:
        pairs = join(f"{tool} (as {alias})" for alias, tool in tools.aliases)
        said.append(f"may call the tools {pairs}, {say_rate(tools.rate_limit)}")
    limits = say_limits(capabilities.limits)
    if limits:
        said.append(f"may use {limits}")
    said.append("may not do anything else" if said else "may not do anything outside its sandbox")
    return tuple(said)


def _say_http(http: HttpCapability) -> list[str]:
    said = []
    for entry in http.allowlist:
        places = [say_location(m) + _where(m, entry) for m in http.credentials if _meet(m, entry)]
        said.append(f"may {say_endpoint(entry)}" + (f", {join(places)}" if places else ""))
    if said:
        said.append(
            f"may send those requests {say_rate(http.rate_limit)}, each with at most "
            f"{_say_bytes(http.max_request_bytes)} out, {_say_bytes(http.max_response_bytes)} back "
            f"and {http.timeout_seconds:g} seconds"
        )
    unused = [m for m in http.credentials if not any(_meet(m, entry) for entry in http.allowlist)]
    said += [f"has your secret {m.secret_name} for {join(m.host_patterns)}, where no request may go" for m in unused]
    return said


def say_endpoint(entry: EndpointPattern) -> str:
    """`GET and POST https://api.example.com/v1/ and below`."""
    methods = join(entry.methods) if entry.methods else "send any request to"
    ports = entry.ports or tuple(DEFAULT_PORTS[scheme] for scheme in entry.schemes)
    shown = "" if not entry.ports else f":{join(map(str, ports), 'or')}"
    if len(entry.ports) > 1:
        shown = f" (ports {join(map(str, ports), 'or')})"
    host = entry.host_pattern if ":" not in entry.host_pattern else f"[{entry.host_pattern}]"
    scheme = "https://" if entry.schemes == ("https",) else "unencrypted http://"
    if len(entry.schemes) == 2:
        scheme = "https or unencrypted http://"
    path = f"{entry.path_prefix} and below" if entry.path_prefix else ", every path"
    return f"{methods} {scheme}{host}{shown}{path}"


def say_location(mapping: CredentialMapping) -> str:
    """`with your secret api_token in the Authorization header`."""
    return f"with your secret {mapping.secret_name} {_place(mapping.location)}{' if it is set' * mapping.optional}"


def say_credential(mapping: CredentialMapping) -> str:
    """A credential alone, with the requests that get it."""
    paths = f" under {join(mapping.path_patterns)}" if mapping.path_patterns else ""
    return f"{say_location(mapping)}, for {join(mapping.host_patterns)}{paths}"


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
        case LocationType.URL_PATH:
            return f"in the URL in place of {{{location.placeholder}}}"


def _meet(mapping: CredentialMapping, entry: EndpointPattern) -> bool:
    prefix = (entry.path_prefix,) if entry.path_prefix else ()
    hosts = common_hosts(mapping.host_patterns, (entry.host_pattern,))
    return bool(hosts) and common_paths(mapping.path_patterns, prefix) is not None


def _where(mapping: CredentialMapping, entry: EndpointPattern) -> str:
    hosts = common_hosts(mapping.host_patterns, (entry.host_pattern,))
    at = "" if entry.host_pattern in hosts else f" at {join(hosts)}"
    paths = common_paths(mapping.path_patterns, (entry.path_prefix,) if entry.path_prefix else ())
    under = "" if not paths or entry.path_prefix in paths else f" under {join(paths)}"
    return at + under


def say_prefix(prefix: str) -> str:
    if not prefix:
        return "every file of the workspace"
    return f"files under {prefix}" if prefix.endswith("/") else f"{prefix} and files under {prefix}/"


def say_rate(rate: RateLimitConfig) -> str:
    return f"{rate.requests_per_minute} times a minute and {rate.requests_per_hour} times an hour"


def say_limits(limits: ToolLimits) -> str:
    return join(
        f"{_say_bytes(value) if name.endswith('_bytes') else f'{value:,}'} {_UNITS[name]}"
        for name, value in limits.overrides().items()
    )


def _say_bytes(size: int) -> str:
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit:,} {name}"
    return f"{size:,} bytes"


def join(words: Iterable[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    listed = list(words)
    return f"{', '.join(listed[:-1])} {last} {listed[-1]}" if len(listed) > 1 else "".join(listed)
