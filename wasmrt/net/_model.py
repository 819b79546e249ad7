"""What goes through the door, what the door needs from a call, and what an operator may set."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Protocol

from wasmrt.capabilities import Capabilities, parse_networks
from wasmrt.errors import ConfigurationError, WasmrtError
from wasmrt.leaks import LeakScanner
from wasmrt.limits import CONNECT_TIMEOUT_SECONDS, MAX_CONNECTIONS_PER_ORIGIN
from wasmrt.model import Decision
from wasmrt.net._resolver import Resolver
from wasmrt.net._wire import Transport


class FailureKind(StrEnum):
    """The closed set of `near:agent@0.4.1` and `wasmrt:tool`."""

    AUTH_REQUIRED = "auth-required"
    INPUT = "input"
    OUTPUT_TOO_LARGE = "output-too-large"
    EXECUTOR = "executor"
    NETWORK_DENIED = "network-denied"
    CLIENT = "client"
    OPERATION_FAILED = "operation-failed"


class HttpFailure(WasmrtError):  # noqa: N818 - the worlds call it a failure
    """Why a request has no response. `host/` turns it into the error of the guest's world.

    `request_sent` is False only when not one byte of the request has left. `decision` is the refusal, where one was
    made; `retry_after_seconds` belongs to code `rate-limited`.
    """

    def __init__(
        self,
        kind: FailureKind,
        code: str,
        message: str,
        *,
        request_sent: bool = False,
        decision: Decision | None = None,
        hint: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint or (decision.hint if decision is not None else None))
        self.kind = kind
        self.request_sent = request_sent
        self.decision = decision
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What a guest asks for, as it wrote it."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a guest gets: decoded, scrubbed, headers in the order received with duplicates kept."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class SecretValue(Protocol):
    """A secret as `wasmrt.secrets` hands it out; this room and that one do not import each other."""

    def reveal(self) -> str:
        """Return the value."""


class SecretsView(Protocol):
    """The secrets of one user."""

    def get(self, name: str) -> SecretValue:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""

    def renewed(self, name: str) -> SecretValue | None:
        """Return a newer value after the server refused this one, or None where there is none."""


class DoorCall(Protocol):
    """What the door needs from a call's context."""

    @property
    def tool(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def deadline(self) -> float:
        """In seconds of `time.monotonic`."""

    @property
    def grant(self) -> Capabilities: ...

    @property
    def secrets(self) -> SecretsView | None:
        """Those of the call's user; None in a runtime that holds none."""

    @property
    def scanner(self) -> LeakScanner:
        """Knows every secret that was primed so far, and is used for the call's logs and results as well."""

    @property
    def cancelled(self) -> threading.Event: ...

    def prime(self, name: str, value: str) -> None:
        """Make `scanner` find `value` from now on. Called before the value goes on the wire."""

    def charge_http_request(self) -> bool:
        """Count one request; False where the call's budget is spent."""

    def charge_http_bytes(self, *, sent: int, received: int) -> None:
        """Report bytes on the wire, headers included, as they come."""

    def decide(self, decision: Decision) -> object:
        """Record a decision for the audit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """What an operator, and never a sidecar, says about the network.

    Raises:
        ConfigurationError: a network is not one, or a number is not positive.
    """

    unsafe_allowed_networks: tuple[str | IPv4Network | IPv6Network, ...] = ()
    """Internal networks that tools may reach, such as "10.1.0.0/16" for a local model."""
    resolver: Resolver | None = None
    """None for the system's."""
    ca_file: Path | None = None
    """A PEM file of certificate authorities to trust instead of the system's."""
    max_connections: int = MAX_CONNECTIONS_PER_ORIGIN
    """To one host at one address."""
    connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS
    transport: Transport | None = None
    """None for sockets; a test's recorded answers. Every check of the door comes before it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unsafe_allowed_networks", parse_networks(self.unsafe_allowed_networks))
        if self.max_connections < 1 or not 0 < self.connect_timeout_seconds < float("inf"):
            raise ConfigurationError("max_connections and connect_timeout_seconds must be positive")

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """`unsafe_allowed_networks`, read."""
        return parse_networks(self.unsafe_allowed_networks)
