"""The bounds of one HTTP exchange: until when, how many bytes, and whether anybody still waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from wasmrt.capabilities import HttpCapability
from wasmrt.egress._model import FailureKind, HttpFailure
from wasmrt.egress._wire import wire_budget

_SLICE_SECONDS = 0.05
"""How long one wait on a socket lasts at most: a cancelled call lets go after this."""


class Bounds(NamedTuple):
    """What one answer may take, and the grant that says so."""

    ends_at: float
    """In seconds of `time.monotonic`."""
    seconds: float
    """What `ends_at` came from: the grant's timeout, or the tool's own where it is shorter."""
    max_response_bytes: int
    http: HttpCapability | None = None
    """None for a request of the host's own."""


class Exchange:
    """Asked before every wait and told of every byte.

    A timeout for each read would not do: a server that drips a byte a second never meets one.
    Its failures name the `origin`, which `redact` has gone over, and nothing else of the URL.
    """

    __slots__ = (
        "_bounds",
        "_call_deadline",
        "_cancelled",
        "_max_received",
        "_origin",
        "_redact",
        "_told",
        "received",
        "sent",
    )

    def __init__(
        self,
        bounds: Bounds,
        *,
        origin: str,
        redact: Callable[[str], str],
        call_deadline: float,
        cancelled: threading.Event,
    ) -> None:
        self._bounds = bounds
        self._origin = origin
        self._redact = redact
        self._call_deadline = call_deadline
        self._max_received = wire_budget(bounds.max_response_bytes)
        self._cancelled = cancelled
        self._told = (0, 0)
        self.sent = 0
        self.received = 0

    def wait_seconds(self) -> float:
        """Return how long the next wait may last.

        Raises:
            HttpFailure: the time is over, or the call was cancelled.
        """
        now = time.monotonic()
        if self._cancelled.is_set():
            raise self.failure(FailureKind.EXECUTOR, "cancelled", "the call was cancelled")
        if now >= self._call_deadline:
            raise self.failure(FailureKind.EXECUTOR, "deadline-exceeded", "the call's time is over")
        if now >= self._bounds.ends_at:
            raise self._timed_out()
        return min(self._bounds.ends_at - now, _SLICE_SECONDS)

    def charge_received(self, count: int) -> None:
        """Count bytes from the wire, headers and framing included.

        Raises:
            HttpFailure: they are more than the response may have.
        """
        self.received += count
        if self.received > self._max_received:
            raise self.too_large()

    def news(self) -> tuple[int, int]:
        """Return the bytes sent and received since this was last asked."""
        sent, received = self._told
        self._told = (self.sent, self.received)
        return self.sent - sent, self.received - received

    def too_large(self) -> HttpFailure:
        most = self._bounds.max_response_bytes
        return self.failure(
            FailureKind.OUTPUT_TOO_LARGE,
            "response-too-large",
            f"the response of {self.origin} has more than {most} bytes",
            f"raise http.max_response_bytes, now {most}" if self._bounds.http is not None else None,
        )

    def broken(self) -> HttpFailure:
        return self.failure(
            FailureKind.OPERATION_FAILED,
            "connection",
            f"the connection to {self.origin} broke before the response was complete",
        )

    @property
    def origin(self) -> str:
        """Who is asked, for people: `https://api.example.com`. No path and no query, which may hold a secret."""
        return self._redact(self._origin)

    def failure(self, kind: FailureKind, code: str, message: str, hint: str | None = None) -> HttpFailure:
        """Make a failure that says whether the request has left."""
        return HttpFailure(kind, code, message, request_sent=self.sent > 0, hint=hint)

    def _timed_out(self) -> HttpFailure:
        seconds, http = self._bounds.seconds, self._bounds.http
        hint = None
        if http is not None and seconds < http.timeout_seconds:
            hint = f"the tool itself set this timeout; http.timeout_seconds allows {http.timeout_seconds:g}"
        elif http is not None:
            hint = f"raise http.timeout_seconds, now {http.timeout_seconds:g}"
        message = f"{self.origin} did not answer in time ({seconds:g} s)"
        return self.failure(FailureKind.OPERATION_FAILED, "timeout", message, hint)
