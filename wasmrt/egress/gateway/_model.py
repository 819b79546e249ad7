"""Requests, responses and failures of the gateway, and the interface through which it uses the call."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from wasmrt.capabilities import Capabilities
from wasmrt.core.errors import WasmrtError
from wasmrt.core.lifetime import EndEvent
from wasmrt.core.model import Decision
from wasmrt.egress.leaks import LeakScanner
from wasmrt.sandbox.component.worlds import FailureKind


class HttpFailure(WasmrtError):  # noqa: N818 - the worlds call it a failure
    """The failure of a request. Each world of tools maps it to its own error type.

    `request_sent` is False only if no byte of the request was sent. `decision` is set if the request was denied.
    `retry_after_seconds` is set for the code `rate-limited`.
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
    """The kind of sender. Both kinds have the same order of checks, address checks, TLS settings and limits."""

    GUEST = "guest"
    """A guest. The whole request is scanned. The guest cannot set headers of the injector, or see login headers."""
    HOST = "host"
    """The host's own client. Login headers of the request may contain tokens; headers that the injector also sets are
    replaced. The client sees login headers of the response. Injected secrets are redacted from the response too."""


class WaitTimeouts(NamedTuple):
    """Timeouts of single waits in seconds, as in HTTP clients; None for no timeout."""

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
    """Timeout of the complete exchange. The grant's timeout limits it."""
    wait_timeouts: WaitTimeouts = UNLIMITED_WAITS
    identity: bool = False
    """Request a body without content coding. A coded body is refused before it is read."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response as a guest gets it: decoded and redacted, with headers in the received order and with duplicates.

    Headers whose name indicates credentials (`Set-Cookie`, `WWW-Authenticate`, `X-Auth-Token` and others) and headers
    that describe the transferred bytes (`Content-Length`, `Content-Encoding`, `Connection`) are left out.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class SecretValue(Protocol):
    """The interface of a secret, such as `wasmrt.egress.secrets.Secret`."""

    def reveal(self) -> str:
        """Return the value."""


class SecretsView(Protocol):
    """The secrets of one user."""

    def get(self, name: str) -> SecretValue:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""

    def renewed(self, name: str) -> SecretValue | None:
        """Renew a secret whose stored value the server refused. Return the new value, or None if there is none."""

    def hint_to_set(self, name: str) -> str:
        """Return an instruction for the user to set a secret."""


class EgressCall(Protocol):
    """The call that a request belongs to: its grant, its secrets, its budgets and its record."""

    @property
    def tool(self) -> str:
        """The tool's name for rate limits."""

    @property
    def user(self) -> str:
        """The user whose secrets and rate limits apply."""

    @property
    def deadline(self) -> float:
        """The latest end of the call, in seconds of `time.monotonic`."""

    @property
    def grant(self) -> Capabilities:
        """The capabilities that the operator granted."""

    @property
    def secrets(self) -> SecretsView | None:
        """The secrets of the call's user; None if the runtime has no secrets."""

    @property
    def scanner(self) -> LeakScanner:
        """The scanner that finds every value passed to `watch` so far. It also scans the call's logs and results."""

    @property
    def cancelled(self) -> EndEvent:
        """An event that is set when the call is cancelled."""

    def watch(self, name: str, value: str) -> None:
        """Make `scanner` find `value` from now on. This is called before the value is sent."""

    def charge_http_request(self) -> bool:
        """Count one request; return False if the call's budget is exhausted."""

    def charge_http_bytes(self, *, sent: int, received: int) -> None:
        """Count transferred bytes, including headers, during the transfer."""

    def decide(self, decision: Decision) -> Decision:
        """Record a decision and return the recorded version.

        The recorded version may differ, for example if the call is limited to fewer effects than its grant.

        SECURITY: a decision may quote the guest's URL, which may contain a secret, so its text is redacted first.
        """
