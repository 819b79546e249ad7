"""One HTTP exchange: its time and byte budget, its request and response on the wire, and the transport interface."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from wasmrt.capabilities import HttpCapability
from wasmrt.core.limits import MAX_HEADER_BYTES
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway._model import UNLIMITED_WAITS, EgressCall, HttpFailure, WaitTimeouts
from wasmrt.egress.leaks import Direction
from wasmrt.sandbox.component.worlds import FailureKind

_SLICE_SECONDS = 0.05
"""Longest single wait on a socket: a cancelled call lets go after this."""


class Wait(StrEnum):
    """The kinds of waiting that a client may limit one by one."""

    CONNECT = "connect"
    READ = "read"
    WRITE = "write"
    POOL = "pool"


class ExchangeBudget:
    """The time and bytes of one exchange, checked before every wait and charged for every byte.

    A timeout for each read does not suffice: a server that sends one byte a second never exceeds it.
    Failures name the redacted origin, and nothing else of the URL.
    """

    __slots__ = (
        "_call",
        "_call_deadline",
        "_cancelled",
        "_http",
        "_max_received",
        "_origin",
        "_seconds",
        "_wait",
        "_wait_ends_at",
        "_wait_timeouts",
        "ends_at",
        "max_response_bytes",
        "received",
        "sent",
    )

    def __init__(
        self,
        origin: str,
        *,
        seconds: float,
        max_response_bytes: int,
        call: EgressCall | None = None,
        http: HttpCapability | None = None,
        wait_timeouts: WaitTimeouts = UNLIMITED_WAITS,
    ) -> None:
        """Start the clock; `call` and `http` are None for a request of the host's own."""
        self._origin = origin
        self._seconds = seconds
        self._call = call
        self._http = http
        self._call_deadline = float("inf") if call is None else call.deadline
        self._cancelled = None if call is None else call.cancelled
        self._wait_timeouts = wait_timeouts if wait_timeouts != UNLIMITED_WAITS else None
        self._wait: Wait | None = None
        self._wait_ends_at = float("inf")
        self._max_received = max_response_bytes + MAX_HEADER_BYTES  # framing is not free
        self.ends_at = min(self._call_deadline, time.monotonic() + seconds)
        """In seconds of `time.monotonic`."""
        self.max_response_bytes = max_response_bytes
        self.sent = 0
        self.received = 0

    @property
    def user(self) -> str:
        """The user that the exchange is for; empty for the host's own request."""
        return "" if self._call is None else self._call.user

    def begin(self, wait: Wait) -> None:
        """Start the clock of one wait, where the client limits that kind."""
        if self._wait_timeouts is not None:
            limit: float | None = getattr(self._wait_timeouts, wait)
            self._wait = wait
            self._wait_ends_at = float("inf") if limit is None else time.monotonic() + limit

    @property
    def wait_ends_at(self) -> float:
        """The end of the wait that has begun, in seconds of `time.monotonic`: its own or the budget's."""
        return min(self.ends_at, self._wait_ends_at)

    def wait_seconds(self) -> float:
        """Return how long the next wait may last.

        Raises:
            HttpFailure: the time is over, or the call was cancelled.
        """
        now = time.monotonic()
        if self._cancelled is not None and self._cancelled.is_set():
            raise self.failure(FailureKind.EXECUTOR, "cancelled", "the call was cancelled")
        if now >= self._call_deadline:
            raise self.failure(FailureKind.EXECUTOR, "deadline-exceeded", "the call's time is over")
        if now >= self.ends_at:
            raise self._timed_out()
        self.check_wait(now)
        return min(self.ends_at - now, self._wait_ends_at - now, _SLICE_SECONDS)

    def check_wait(self, now: float) -> None:
        """Raise `HttpFailure` where the wait that has begun took longer than the client lets it."""
        if now >= self._wait_ends_at:
            limit: float = getattr(self._wait_timeouts, str(self._wait))
            message = f"{self.origin} did not answer in time (a {self._wait} timeout of {limit:g} s)"
            raise self.failure(FailureKind.OPERATION_FAILED, f"{self._wait}-timeout", message)

    def charge_sent(self, count: int) -> None:
        """Count bytes that went on the wire."""
        self.sent += count
        if self._call is not None:
            self._call.charge_http_bytes(sent=count, received=0)

    def charge_received(self, count: int) -> None:
        """Count bytes from the wire, headers and framing included.

        Raises:
            HttpFailure: they are more than the response may have.
        """
        self.received += count
        if self._call is not None:
            self._call.charge_http_bytes(sent=0, received=count)
        if self.received > self._max_received:
            raise self.too_large()

    def too_large(self) -> HttpFailure:
        """Make the failure of a response over its cap, and record it: an operator can raise the cap."""
        most = self.max_response_bytes
        hint = None if self._http is None else f"raise http.max_response_bytes, now {most}"
        if self._call is not None:
            # The subject is the origin alone: the URL may hold a secret by now.
            rule = "the response has more bytes than http.max_response_bytes"
            self._call.decide(Decision(False, Reason.RESPONSE_TOO_LARGE, rule, hint, "http", self.origin))
        message = f"the response of {self.origin} has more than {most} bytes"
        return self.failure(FailureKind.OUTPUT_TOO_LARGE, "response-too-large", message, hint)

    def broken(self) -> HttpFailure:
        """Make the failure of a connection that ended too early."""
        message = f"the connection to {self.origin} broke before the response was complete"
        return self.failure(FailureKind.OPERATION_FAILED, "connection", message)

    @property
    def origin(self) -> str:
        """The server, for people: `https://api.example.com`. No path and no query, which may hold a secret."""
        if self._call is None:
            return self._origin
        return self._call.scanner.redact(self._origin, direction=Direction.OUTWARD)

    def failure(self, kind: FailureKind, code: str, message: str, hint: str | None = None) -> HttpFailure:
        """Make a failure that says whether the request has left."""
        return HttpFailure(kind, code, message, request_sent=self.sent > 0, hint=hint)

    def _timed_out(self) -> HttpFailure:
        seconds, http = self._seconds, self._http
        hint = None
        if http is not None and seconds < http.timeout_seconds:
            hint = f"the tool itself set this timeout; http.timeout_seconds allows {http.timeout_seconds:g}"
        elif http is not None:
            hint = f"raise http.timeout_seconds, now {http.timeout_seconds:g}"
        message = f"{self.origin} did not answer in time ({seconds:g} s)"
        return self.failure(FailureKind.OPERATION_FAILED, "timeout", message, hint)


@dataclass(frozen=True, slots=True, repr=False)
class WireRequest:
    """A request as it goes on the wire, secrets included. Has no repr: it is never to be shown."""

    method: str
    scheme: str
    host: str
    port: int
    target: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes | None


class Body(Protocol):
    """The body of a response, its content codings undone, as it comes in. Iterated once."""

    def __iter__(self) -> Iterator[bytes | bytearray]:
        """Yield the pieces as they come; raises `HttpFailure` where it ended too early or broke a bound."""

    def close(self) -> None:
        """Release the connection, whether all was read or not; more than once does nothing."""


class WholeBody:
    """A body that is already here."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        if self._content:
            yield self._content

    def close(self) -> None:
        """Do nothing: there is no connection."""


@dataclass(frozen=True, slots=True, repr=False)
class WireResponse:
    """A response as it comes, its content codings undone; nothing is redacted yet. Close the body."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: Body


class Transport(Protocol):
    """Sends checked requests, and nothing else. Called from many threads."""

    def send(self, request: WireRequest, addresses: Sequence[str], budget: ExchangeBudget) -> WireResponse:
        """Return the response as soon as its head is here, or raise `HttpFailure`."""

    def close(self) -> None:
        """Close the idle connections."""
