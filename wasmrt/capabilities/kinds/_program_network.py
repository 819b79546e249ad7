"""The hosts to which a confined program may connect, as allowlist entries that a proxy can enforce."""

from __future__ import annotations

from typing import Any

from wasmrt.capabilities._fields import join_path
from wasmrt.capabilities.kinds.http import format_path, read_entry
from wasmrt.capabilities.model import EndpointPattern
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES

_HINT = 'write it like network = ["packages.example.com", {host = "mirror.example.com", port = 8443}]'


def read_program_network(value: Any) -> tuple[EndpointPattern, ...]:
    """Parse a list of hosts. Each is a name, or an entry as in `http.allowlist` of a capability file.

    Raises:
        ConfigurationError: an entry is invalid, or restricts the paths or methods of https requests, which the proxy
            cannot see.
    """
    if not isinstance(value, list | tuple) or len(value) > MAX_CAPABILITY_ENTRIES:
        raise ConfigurationError(f'"network" must be a list of up to {MAX_CAPABILITY_ENTRIES} hosts', hint=_HINT)
    return tuple(_read_host_entry(each, join_path("network", index)) for index, each in enumerate(value))


def program_network_line(entry: EndpointPattern) -> str:
    """Describe the requests that an entry allows a program to send."""
    where = "every public host" if entry.host_pattern == "*" else entry.host_pattern
    parts = []
    for scheme in entry.schemes:
        ports = ", ".join(map(str, entry.get_ports(scheme)))
        if scheme == "https":
            parts.append(f"https on port {ports}, every path and method: TLS hides them")
        else:
            parts.append(f"http on port {ports}, {format_path(entry)}, {', '.join(entry.methods) or 'every method'}")
    return f"{where} ({'; '.join(parts)})"


def _read_host_entry(value: Any, place: str) -> EndpointPattern:
    entry = read_entry({"host": value} if isinstance(value, str) else value, place, hint=_HINT)
    narrowed = [name for name in ("path", "path_prefix", "methods") if getattr(entry, name)]
    if narrowed and "https" in entry.schemes:
        # SECURITY: refuse restrictions that the proxy cannot enforce.
        raise ConfigurationError(
            f"{place}: {narrowed[0]} cannot be enforced for https, because TLS hides paths and methods from the proxy",
            hint=f'remove {narrowed[0]} to grant the whole host, or grant only http: scheme = "http"',
        )
    return entry
