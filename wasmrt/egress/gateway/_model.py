"""Requests, responses and failures of the gateway, and its view of the call they belong to."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from wasmrt.capabilities import Capabilities
from wasmrt.core.errors import WasmrtError
from wasmrt.core.model import Decision
from wasmrt.egress.leaks import LeakScanner
from wasmrt.sandbox.component.worlds import FailureKind


class HttpFailure(WasmrtError):  # noqa: N818 - the worlds call it a failure
    """A request without a response; each world maps it to its own error.

    `request_sent` is False only if no byte of the request was sent. `decision` is the denial, if one was
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


class Face(StrEnum):
    """The two sides that the gateway serves, with the same order of checks, addresses, TLS and bounds."""

    GUEST = "guest"
    """Everything it wrote is scanned, it may set no header of the injector's, and it sees no credential of a server."""
    HOST = "host"
    """The host's own client: headers that carry logins are not scanned, a header that the
    injector sets is replaced, and it sees every header. Injected secrets are redacted from its responses too."""


class WaitTimeouts(NamedTuple):
    """Timeouts of single waits, in seconds, as HTTP clients have them; None for no timeout."""

    connect: float | None = None
    read: float | None = None
    write: float | None = None
    pool: float | None = None


UNLIMITED_WAITS = WaitTimeouts()


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as its sender wrote it."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    timeout_seconds: float | None = None
    """For the whole exchange; the grant's is the longest."""
    wait_timeouts: WaitTimeouts = UNLIMITED_WAITS


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response as a guest gets it: decoded, redacted, headers in the order received with duplicates kept.

    Headers whose name carries credentials (`Set-Cookie`, `WWW-Authenticate`, `X-Auth-Token` and the like) and headers
    that describe the bytes on the wire (`Content-Length`, `Content-Encoding`, `Connection`) are left out.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class SecretValue(Protocol):
    """A secret; `wasmrt.egress.secrets.Secret` is one."""

    def reveal(self) -> str:
        """Return the value."""


class SecretsView(Protocol):
    """The secrets of one user."""

    def get(self, name: str) -> SecretValue:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""

    def renewed(self, name: str) -> SecretValue | None:
        """Return a newer value after the server refused this one, or None."""


class EgressCall(Protocol):
    """The call that a request belongs to: its grant, its secrets, its budgets and its record."""

    @property
    def tool(self) -> str:
        """The tool's name, in rate limits."""

    @property
    def user(self) -> str:
        """The user whose secrets and rate limits count."""

    @property
    def deadline(self) -> float:
        """In seconds of `time.monotonic`."""

    @property
    def grant(self) -> Capabilities:
        """The capabilities that the operator granted."""

    @property
    def secrets(self) -> SecretsView | None:
        """The secrets of the call's user; None in a runtime without secrets."""

    @property
    def scanner(self) -> LeakScanner:
        """Knows every secret watched so far, and is used for the call's logs and results as well."""

    @property
    def cancelled(self) -> threading.Event:
        """Set when the call is cancelled."""

    def watch(self, name: str, value: str) -> None:
        """Have `scanner` find `value` from now on. Called before the value goes on the wire."""

    def charge_http_request(self) -> bool:
        """Count one request; False if the call's budget is spent."""

    def charge_http_bytes(self, *, sent: int, received: int) -> None:
        """Count bytes on the wire, headers included, as they come."""

    def decide(self, decision: Decision) -> Decision | None:
        """Record a decision, and return the recorded version if it differs, otherwise None."""
