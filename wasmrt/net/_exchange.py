"""The bounds of one HTTP exchange: until when, how many bytes, and whether anybody still waits for it."""

from __future__ import annotations

import threading
import time

from wasmrt.net._model import FailureKind, HttpFailure

_SLICE_SECONDS = 0.05
"""How long one wait on a socket lasts at most: a cancelled call lets go after this."""


class Exchange(float):
    """Travels as httpcore's timeout to the streams of `_backend`, which are shared by many exchanges.

    httpcore hands a request's timeouts to the stream as they are. A plain number would bound one read, and a server
    that drips a byte a second would never meet it; this one knows when the whole exchange ends. As a float it is the
    seconds that were left at the start.
    """

    deadline: float
    sent: int
    received: int
    dialled: bool
    """Whether this exchange opened a connection; otherwise it was given one that had been idle."""

    def __new__(
        cls,
        *,
        ends_at: float,
        call_deadline: float,
        max_received_bytes: int,
        cancelled: threading.Event,
    ) -> Exchange:
        self = super().__new__(cls, max(0.0, ends_at - time.monotonic()))
        self.deadline = ends_at
        self._call_deadline = call_deadline
        self._max_received = max_received_bytes
        self._cancelled = cancelled
        self.sent = self.received = 0
        self.dialled = False
        return self

    _call_deadline: float
    _max_received: int
    _cancelled: threading.Event

    def wait_seconds(self, at_most: float = _SLICE_SECONDS) -> float:
        """Return how long the next wait on a socket may last.

        Raises:
            HttpFailure: the time is over, or the call was cancelled.
        """
        now = time.monotonic()
        if self._cancelled.is_set():
            raise self.failure(FailureKind.EXECUTOR, "cancelled", "the call was cancelled")
        if now >= self._call_deadline:
            raise self.failure(FailureKind.EXECUTOR, "deadline-exceeded", "the call's time is over")
        if now >= self.deadline:
            raise self.failure(FailureKind.OPERATION_FAILED, "timeout", "the server did not answer in time")
        return min(self.deadline - now, at_most)

    def charge_received(self, count: int) -> None:
        """Count bytes from the wire, headers and framing included.

        Raises:
            HttpFailure: they are more than the response may have.
        """
        self.received += count
        if self.received > self._max_received:
            raise self.too_large()

    def too_large(self) -> HttpFailure:
        return self.failure(
            FailureKind.OUTPUT_TOO_LARGE,
            "response-too-large",
            "the response has more bytes than http.max_response_bytes",
        )

    def failure(self, kind: FailureKind, code: str, message: str) -> HttpFailure:
        """Make a failure that says whether the request has left."""
        return HttpFailure(kind, code, message, request_sent=self.sent > 0)
