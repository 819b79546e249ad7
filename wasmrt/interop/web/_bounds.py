"""Bounds of the web server: what one client, and all of them together, may take up."""

from __future__ import annotations

from dataclasses import dataclass, fields

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import KIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class WebBounds:
    """Bounds of one server. Memory is at most about `connections` times `head_bytes` and `body_bytes`.

    Raises:
        ConfigurationError: a bound is not a positive number.
    """

    connections: int = 256
    """At once; one more is answered with 503."""
    connections_per_client: int = 192
    """Of one IPv4 address, or one /64 of IPv6 (RFC 4291, 2.5.4). Every program on the machine is one client."""
    head_bytes: int = 32 * KIB
    """Request line and headers; more is answered with 431."""
    headers: int = 100
    body_bytes: int = MIB
    """Declared or sent in chunks; more is answered with 413."""
    idle_seconds: float = 60.0
    """Between two requests of a connection, and before its first."""
    head_seconds: float = 10.0
    """From a head's first byte to its last; later it is answered with 408."""
    body_seconds: float = 60.0
    """From the end of the head to the end of the body."""
    write_seconds: float = 30.0
    """For a client to take 64 KiB of a response."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ConfigurationError(f"the web server's bound {field.name} is a positive number, not {value!r}")
