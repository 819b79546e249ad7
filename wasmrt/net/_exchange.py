"""The bounds of one HTTP exchange: until when, how many bytes, and whether anybody still waits for it."""

from __future__ import annotations

import threading
import time

from wasmrt.net._model import FailureKind, HttpFailure

_SLICE_SECONDS = 0.05
"""How long one wait on a socket lasts at most: a cancelled call lets go after this."""


class Exchange:
    """Asked before every wait and told of every byte.

    A timeout for each read would not do: a server that drips a byte a second never meets one.
    """

    __slots__ = ("_call_deadline", "_cancelled", "_ends_at", "_max_received", "_told", "received", "sent")

    def __init__(
        self, *, ends_at: float, call_deadline: float, max_received_bytes: int, cancelled: threading.Event
    ) -> None:
        self._ends_at = ends_at
        self._call_deadline = call_deadline
        self._max_received = max_received_bytes
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
        if now >= self._ends_at:
            raise self.failure(FailureKind.OPERATION_FAILED, "timeout", "the server did not answer in time")
        return min(self._ends_at - now, _SLICE_SECONDS)

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
        return self.failure(
            FailureKind.OUTPUT_TOO_LARGE,
            "response-too-large",
            "the response has more bytes than http.max_response_bytes",
        )

    def broken(self) -> HttpFailure:
        return self.failure(
            FailureKind.OPERATION_FAILED,
            "connection",
            "the connection broke before the response was complete",
        )

    def failure(self, kind: FailureKind, code: str, message: str) -> HttpFailure:
        """Make a failure that says whether the request has left."""
        return HttpFailure(kind, code, message, request_sent=self.sent > 0)
