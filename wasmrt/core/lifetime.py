"""The lifetime of a call. A call ends at its deadline, when it is cancelled, or when the runtime closes."""

from __future__ import annotations

import threading
import time
from weakref import WeakSet

from wasmrt.core.errors import CancelledError, DeadlineExceededError, RuntimeClosedError
from wasmrt.core.waiting import EndEvent, await_ready

_LONGEST_WAIT_SECONDS = 1e9
"""A time that is longer than any deadline, but not longer than the maximum timeout of `threading`."""
_wake_lock = threading.Lock()


class Lifetime:
    """The lifetime of a call, which any thread can end before the deadline.

    Attributes:
        started: The monotonic time in seconds at which the call started.
        deadline: The monotonic time in seconds at which the call ends, never later than the deadline of `within`, the
            lifetime of the outer call.
    """

    __slots__ = ("__weakref__", "_ended_by", "_inner", "_wake", "deadline", "started")

    def __init__(self, seconds: float, *, within: Lifetime | None = None) -> None:
        self.started = time.monotonic()
        own = self.started + seconds
        self.deadline: float = own if within is None else min(own, within.deadline)
        self._ended_by: BaseException | None = None
        self._wake: EndEvent | None = None
        self._inner: WeakSet[Lifetime] | None = None
        if within is not None:
            within._add_inner(self)

    def remaining(self) -> float:
        """Return the seconds until the deadline, limited to the range of timeouts that `threading` accepts."""
        return max(0.0, min(self.deadline - time.monotonic(), _LONGEST_WAIT_SECONDS))

    def check(self) -> None:
        """Raise an error if the call has ended.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended for this reason.
        """
        if self._ended_by is not None:
            raise self._ended_by
        if time.monotonic() >= self.deadline:
            raise self.late()

    def wait(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the call ends.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended.
        """
        self.cancelled.wait(min(seconds, self.remaining()))
        self.check()

    def cancel(self) -> None:
        """Cancel the call. The guest stops at its next import, sleep or epoch tick."""
        self.end(CancelledError("the call was cancelled"))

    def close(self) -> None:
        """End the call because its runtime is closing."""
        self.end(RuntimeClosedError("the runtime was closed while the call ran"))

    def await_ready(self, descriptor: int, events: int) -> None:
        """Wait until a descriptor may be ready for `events` of `poll`, or until the call ends.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended.
        """
        await_ready(descriptor, events, self.remaining(), self.cancelled)
        self.check()

    @property
    def cancelled(self) -> EndEvent:
        """An event that is set when the call is cancelled or its runtime closes. The event is created on first use."""
        wake = self._wake
        if wake is None:
            with _wake_lock:
                wake = self._wake = self._wake or EndEvent()
        return wake

    @property
    def is_over(self) -> bool:
        """True if the call has ended for any reason."""
        return self._ended_by is not None or time.monotonic() >= self.deadline

    def interruption(self) -> BaseException | None:
        """Return the error that ended the call, or None if the call has not ended."""
        if self._ended_by is not None:
            return self._ended_by
        return self.late() if time.monotonic() >= self.deadline else None

    def late(self) -> DeadlineExceededError:
        """Return the error for a call that passed its deadline."""
        allowed = self.deadline - self.started
        return DeadlineExceededError(
            f"the call passed its deadline of {allowed:g} s",
            limit=allowed, used=time.monotonic() - self.started, setting="limits.timeout_seconds",
        )  # fmt: skip

    def _add_inner(self, inner: Lifetime) -> None:
        """Cancel the lifetime of an inner call when this one is cancelled. Inner calls may run at the same time."""
        with _wake_lock:
            if self._inner is None:
                self._inner = WeakSet()  # a call that has ended drops its lifetime
            self._inner.add(inner)
        if self._ended_by is not None:
            inner.cancel()

    def end(self, error: BaseException) -> None:
        """End the call with `error`, unless it has ended."""
        if self._ended_by is None:
            self._ended_by = error
        self.cancelled.set()
        if self._inner is not None:
            with _wake_lock:
                running = list(self._inner)
            for inner in running:
                inner.cancel()
