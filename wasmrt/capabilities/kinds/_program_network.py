"""The hosts that a confined program may reach: entries of an allowlist, as far as a proxy can hold them."""

from __future__ import annotations

from typing import Any

from wasmrt.capabilities._fields import child
from wasmrt.capabilities.kinds.http import read_entry
from wasmrt.capabilities.model import EndpointPattern
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES

_HINT = 'write it like network = ["packages.example.com", {host = "mirror.example.com", port = 8443}]'


def read_program_network(value: Any) -> tuple[EndpointPattern, ...]:
    """Read a list of hosts, each a name or an entry as in `http.allowlist` of a capability file.

    Raises:
        ConfigurationError: one cannot be read, or names a path or methods of https, which TLS hides from the proxy.
    """
    if not isinstance(value, list | tuple) or len(value) > MAX_CAPABILITY_ENTRIES:
        raise ConfigurationError(f"network must be a list of up to {MAX_CAPABILITY_ENTRIES} hosts", hint=_HINT)
    return tuple(_entry(each, child("network", index)) for index, each in enumerate(value))


def program_network_line(entry: EndpointPattern) -> str:
    """Return in words what an entry lets a program reach."""
    where = "every public host" if entry.host_pattern == "*" else entry.host_pattern
    parts = []
    for scheme in entry.schemes:
        ports = ", ".join(map(str, entry.ports_for(scheme)))
        if scheme == "https":
            parts.append(f"https on port {ports}, every path and method: TLS hides them")
        else:
            path = entry.path or (f"{entry.path_prefix} and below" if entry.path_prefix else "every path")
            parts.append(f"http on port {ports}, {path}, {', '.join(entry.methods) or 'every method'}")
    return f"{where} ({'; '.join(parts)})"


def _entry(value: Any, place: str) -> EndpointPattern:
    entry = read_entry({"host": value} if isinstance(value, str) else value, place, hint=_HINT)
    narrowed = [name for name in ("path", "path_prefix", "methods") if getattr(entry, name)]
    if narrowed and "https" in entry.schemes:
        # SECURITY: a bound that cannot be held is no bound.
        raise ConfigurationError(
            f"{place}: {narrowed[0]} cannot be held for https: TLS hides paths and methods from the proxy",
            hint=f'leave {narrowed[0]} out, and the whole host is granted; or grant http alone: scheme = "http"',
        )
    return entry
