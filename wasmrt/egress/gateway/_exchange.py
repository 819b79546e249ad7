"""One HTTP exchange: its time and byte budget, its request and response, and the transport interface."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from wasmrt.capabilities import HttpCapability
from wasmrt.core.lifetime import await_ready
from wasmrt.core.limits import MAX_HEADER_BYTES
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway._model import UNLIMITED_WAITS, EgressCall, HttpFailure, WaitTimeouts
from wasmrt.egress.leaks import Direction
from wasmrt.sandbox.component.worlds import FailureKind


class Wait(StrEnum):
    """A kind of wait. A client can limit each kind separately."""

    CONNECT = "connect"
    READ = "read"
    WRITE = "write"
    POOL = "pool"


class ExchangeBudget:
    """The time and bytes of one exchange, checked before every wait and charged for every byte.

    A timeout per read does not suffice: a server that sends one byte per second never exceeds it.
    Failures contain the redacted origin, and no other part of the URL.
    """

    __slots__ = (
        "_call", "_call_deadline", "_http", "_max_received", "_origin", "_seconds", "_wait",
        "_wait_ends_at", "_wait_timeouts", "cancelled", "ends_at", "max_response_bytes", "received", "sent",
    )  # fmt: skip

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
        """Start the time budget; `call` and `http` are None for a request that the host sends for itself."""
        self._origin = origin
        self._seconds = seconds
        self._call = call
        self._http = http
        self._call_deadline = float("inf") if call is None else call.deadline
        self.cancelled = None if call is None else call.cancelled
        """Set when the call is cancelled; None for a request by the host."""
        self._wait_timeouts = wait_timeouts if wait_timeouts != UNLIMITED_WAITS else None
        self._wait: Wait | None = None
        self._wait_ends_at = float("inf")
        self._max_received = max_response_bytes + MAX_HEADER_BYTES  # framing counts too
        self.ends_at = min(self._call_deadline, time.monotonic() + seconds)
        """End of the budget, in seconds of `time.monotonic`."""
        self.max_response_bytes = max_response_bytes
        self.sent = 0
        self.received = 0

    @property
    def user(self) -> str:
        """The user of the exchange; empty for a request that the host sends for itself."""
        return "" if self._call is None else self._call.user

    def begin(self, wait: Wait) -> None:
        """Start to measure a wait, if the client limits waits of this kind."""
        if self._wait_timeouts is not None:
            limit: float | None = getattr(self._wait_timeouts, wait)
            self._wait = wait
            self._wait_ends_at = float("inf") if limit is None else time.monotonic() + limit

    @property
    def wait_ends_at(self) -> float:
        """The end of the current wait or of the budget, whichever comes first, in seconds of `time.monotonic`."""
        return min(self.ends_at, self._wait_ends_at)

    def wait_seconds(self) -> float:
        """Return the maximum duration of the next wait.

        Raises:
            HttpFailure: the time has run out, or the call was cancelled.
        """
        now = time.monotonic()
        if self.cancelled is not None and self.cancelled.is_set():
            raise self.failure(FailureKind.EXECUTOR, "cancelled", "the call was cancelled")
        if now >= self._call_deadline:
            raise self.failure(FailureKind.EXECUTOR, "deadline-exceeded", "the call passed its deadline")
        if now >= self.ends_at:
            raise self._make_timeout_failure()
        self.check_wait(now)
        return min(self.ends_at, self._wait_ends_at) - now

    def await_ready(self, descriptor: int, events: int) -> None:
        """Wait until a descriptor may be ready for `events` of `poll`, within the budget and the call.

        Raises:
            HttpFailure: the time has run out, or the call was cancelled.
        """
        await_ready(descriptor, events, self.wait_seconds(), self.cancelled)
        self.wait_seconds()

    def check_wait(self, now: float) -> None:
        """Raise `HttpFailure` if the current wait has exceeded the client's limit."""
        if now >= self._wait_ends_at:
            limit: float = getattr(self._wait_timeouts, str(self._wait))
            message = f"{self.origin} did not respond in time (a {self._wait} timeout of {limit:g} s)"
            raise self.failure(FailureKind.OPERATION_FAILED, f"{self._wait}-timeout", message)

    def waking(self, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """During the block, call `wake` when the call is cancelled."""
        return nullcontext() if self.cancelled is None else self.cancelled.waking(wake)

    def charge_sent(self, count: int) -> None:
        """Count sent bytes."""
        self.sent += count
        if self._call is not None:
            self._call.charge_http_bytes(sent=count, received=0)

    def charge_received(self, count: int) -> None:
        """Count received bytes, including headers and framing.

        Raises:
            HttpFailure: the response exceeds its limit.
        """
        self.received += count
        if self._call is not None:
            self._call.charge_http_bytes(sent=0, received=count)
        if self.received > self._max_received:
            raise self.fail_too_large()

    def fail_too_large(self) -> HttpFailure:
        """Record that the response exceeds its limit, and create the failure to raise."""
        most = self.max_response_bytes
        hint = None if self._http is None else f"raise http.max_response_bytes, now {most}"
        if self._call is not None:
            # The subject is only the origin: the URL may contain an injected secret.
            rule = "the response has more bytes than http.max_response_bytes"
            self._call.decide(Decision(False, Reason.RESPONSE_TOO_LARGE, rule, hint, "http", self.origin))
        message = f"the response of {self.origin} has more than {most} bytes"
        return self.failure(FailureKind.OUTPUT_TOO_LARGE, "response-too-large", message, hint)

    def make_connection_failure(self) -> HttpFailure:
        """Create the failure for a connection that ended too early."""
        message = f"the connection to {self.origin} broke before the response was complete"
        return self.failure(FailureKind.OPERATION_FAILED, "connection", message)

    @property
    def origin(self) -> str:
        """The server's origin for messages: `https://api.example.com`. Path and query may contain a secret."""
        if self._call is None:
            return self._origin
        return self._call.scanner.redact(self._origin, direction=Direction.OUTWARD)

    def failure(self, kind: FailureKind, code: str, message: str, hint: str | None = None) -> HttpFailure:
        """Create a failure that states whether the request was sent."""
        return HttpFailure(kind, code, message, request_sent=self.sent > 0, hint=hint)

    def _make_timeout_failure(self) -> HttpFailure:
        seconds, http = self._seconds, self._http
        hint = None
        if http is not None and seconds < http.timeout_seconds:
            hint = f"the tool itself set this timeout; http.timeout_seconds allows {http.timeout_seconds:g}"
        elif http is not None:
            hint = f"raise http.timeout_seconds, now {http.timeout_seconds:g}"
        message = f"{self.origin} did not respond in time ({seconds:g} s)"
        return self.failure(FailureKind.OPERATION_FAILED, "timeout", message, hint)


@dataclass(frozen=True, slots=True, repr=False)
class WireRequest:
    """A request in its final form, including secrets. Its repr does not show the fields."""

    method: str
    scheme: str
    host: str
    port: int
    target: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes | None
    identity: bool = False
    """True if a response with a content coding is refused."""


class Body(Protocol):
    """A response body with its content codings removed. It can be iterated once."""

    def __iter__(self) -> Iterator[bytes | bytearray]:
        """Yield the pieces as they arrive; raise `HttpFailure` if the body is incomplete or exceeds a limit."""

    def close(self) -> None:
        """Release the connection, even if the body was not read completely. Safe to call twice."""


class WholeBody:
    """A body that is already in memory."""

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
    """A response with its content codings removed, not yet redacted. The caller closes the body."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: Body


class Transport(Protocol):
    """The interface of an object that sends checked requests. Many threads call it."""

    def send(self, request: WireRequest, addresses: Sequence[str], budget: ExchangeBudget) -> WireResponse:
        """Return the response once its headers have arrived, or raise `HttpFailure`."""

    def close(self) -> None:
        """Close the idle connections."""
