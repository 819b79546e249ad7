"""What goes through the door, what the door needs from a call, and what an operator may set."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Protocol

from wasmrt.capabilities import Capabilities
from wasmrt.egress._resolver import Resolver
from wasmrt.egress._wire import Transport
from wasmrt.errors import ConfigurationError, WasmrtError
from wasmrt.leaks import LeakScanner
from wasmrt.limits import CONNECT_TIMEOUT_SECONDS, MAX_CONNECTIONS_PER_ORIGIN, MIB
from wasmrt.model import Decision
from wasmrt.url import parse_networks


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
    """What a guest gets: decoded, scrubbed, headers in the order received with duplicates kept.

    Missing are headers that carry credentials by their name (`Set-Cookie`, `WWW-Authenticate`, `X-Auth-Token` and the
    like) and those that speak of the bytes on the wire (`Content-Length`, `Content-Encoding`, `Connection`).
    """

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

    Attributes:
        unsafe_allowed_networks: Internal networks that tools may reach, such as `("10.1.0.0/16",)` for a local model;
            without any, public addresses only. A tool's allowlist still has to name the host.
        resolver: Turns names into addresses; None for the system's. Every address it returns is judged.
        ca_file: A PEM file of the certificate authorities to trust. It replaces the system's: for both, put both
            into the file. None for the system's.
        max_connections: How many may be open to one host at one address, for all calls together.
        connect_timeout_seconds: How long one address may take to take a connection; what follows has the call's time.
        transport: Sends the requests; None for sockets, else a test's recorded answers. Every check comes before it.

    Raises:
        ConfigurationError: a network is not one, the CA file is absent or no PEM file, or a number is not positive.
    """

    unsafe_allowed_networks: tuple[str | IPv4Network | IPv6Network, ...] = ()
    resolver: Resolver | None = None
    ca_file: Path | None = None
    max_connections: int = MAX_CONNECTIONS_PER_ORIGIN
    connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS
    transport: Transport | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "unsafe_allowed_networks", parse_networks(self.unsafe_allowed_networks))
        if self.ca_file is not None:
            _check_ca_file(self.ca_file)
        count, seconds = self.max_connections, self.connect_timeout_seconds
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ConfigurationError("max_connections must be a positive whole number", hint="write it like 8")
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 < seconds < float("inf"):
            raise ConfigurationError("connect_timeout_seconds must be a positive number", hint="write it like 5.0")

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """`unsafe_allowed_networks`, read."""
        return parse_networks(self.unsafe_allowed_networks)


_MAX_CA_FILE_BYTES = 16 * MIB
"""So much of it is looked at: the authorities of a system take 0.2 MiB."""


def _check_ca_file(path: Path) -> None:
    """Refuse a file that is not there or is another; whether its certificates are sound is for the door, and `ssl`."""
    if not isinstance(path, Path):
        raise ConfigurationError("ca_file must be a pathlib.Path", hint='write it like Path("/etc/my-ca.pem")')
    hint = "name a PEM file of certificate authorities, or leave ca_file out for the system's"
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_CA_FILE_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ConfigurationError(f"ca_file {path} cannot be read ({reason})", hint=hint) from error
    if b"CERTIFICATE-----" not in content:
        raise ConfigurationError(f"ca_file {path} holds no PEM certificate", hint=hint)
