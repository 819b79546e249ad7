"""The guest's side of one call: its budgets, clock, log entries and host services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from wasmrt.core.errors import BudgetExceededError, OutputLimitError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import (
    KIB,
    MAX_HOST_CALLS,
    MAX_LIFTED_VALUES,
    MAX_LOG_ENTRIES,
    MAX_LOG_ENTRY_BYTES,
    ResourceLimits,
)
from wasmrt.core.model import LogEntry, LogLevel
from wasmrt.sandbox.guest.clock import Clock
from wasmrt.sandbox.guest.services import HostServices


class GuestBudgets:
    """The resource counters of one guest and their limits. `failure` is the first error that stopped the guest."""

    __slots__ = ("failure", "fuel_used", "host_calls", "lifetime", "lifted_values", "limits")

    def __init__(self, lifetime: Lifetime, limits: ResourceLimits) -> None:
        self.lifetime = lifetime
        self.limits = limits
        self.fuel_used = 0
        self.host_calls = 0
        self.lifted_values = 0
        self.failure: BaseException | None = None

    def enter_host(self) -> None:
        """Count one call of a host function, before the function runs.

        Raises:
            BudgetExceededError: the guest called the host more often than a call may.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended.
        """
        self.host_calls += 1
        if self.host_calls > MAX_HOST_CALLS:
            raise BudgetExceededError(
                f"the guest called the host more than {MAX_HOST_CALLS:,} times",
                limit=MAX_HOST_CALLS, used=self.host_calls, setting="limits.MAX_HOST_CALLS",
                hint="have the tool do its work in larger steps",
            )  # fmt: skip
        self.lifetime.check()

    def leave_host(self) -> None:
        """Check the call's lifetime after a host function: neither fuel nor epochs limit the time in host code.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended.
        """
        self.lifetime.check()

    def charge_values(self, count: int) -> None:
        """Count values that the guest passes in lists, before they are lifted.

        Raises:
            BudgetExceededError: the guest passed more values in lists than a call may.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended.
        """
        self.lifted_values += count
        if self.lifted_values > MAX_LIFTED_VALUES:
            raise BudgetExceededError(
                f"the guest passed lists of more than {MAX_LIFTED_VALUES:,} values",
                limit=MAX_LIFTED_VALUES, used=self.lifted_values, setting="limits.MAX_LIFTED_VALUES",
                hint="have the tool pass large data as text or bytes",
            )  # fmt: skip
        self.lifetime.check()

    def charge_text(self, size: int) -> None:
        """Check the size in bytes of a string before the string is copied.

        Raises:
            OutputLimitError: the string is longer than the output limit.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended.
        """
        if size > self.limits.output_bytes:
            raise OutputLimitError(
                f"the tool returned {size:,} bytes, over its limit of {self.limits.output_bytes:,}",
                limit=self.limits.output_bytes, used=size, setting="limits.output_bytes",
            )  # fmt: skip
        self.lifetime.check()

    def fail(self, error: BaseException) -> None:
        """Record the error that stops the guest, unless an earlier error is already recorded."""
        if self.failure is None:
            self.failure = error

    is_shared = False
    """True if the guest shares its thread with others, so that it must run on a fiber."""

    def pause(self) -> None:
        """Let the other guests of this thread run.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended.
        """
        raise NotImplementedError

    def interruption(self) -> BaseException | None:
        """Return the error that has to end the guest now, or None if the guest may continue."""
        return self.lifetime.interruption()


Part = TypeVar("Part")
LOG_OVERLAP_BYTES = 16 * KIB
"""The number of bytes over the size limit that a log entry keeps until the entry is scanned.

The longest match of a leak rule has this length, so a match that crosses the limit is still found.
"""
_TRUNCATED = "... (truncated)"


def cut_log(message: str, beyond_bytes: int = 0) -> str:
    """Truncate a log entry on a character boundary, at its size limit plus `beyond_bytes`."""
    limit = MAX_LOG_ENTRY_BYTES + beyond_bytes
    if len(message) * 4 <= limit:
        return message
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return message
    return encoded[: limit - len(_TRUNCATED)].decode("utf-8", "ignore") + _TRUNCATED


class GuestCall(GuestBudgets):
    """The state of one call. Every import gets this object as the parameter `ctx`. One guest uses it at a time."""

    __slots__ = ("_at_end", "_parts", "clock", "log_entries_dropped", "logs", "services", "written_failure")

    def __init__(self, lifetime: Lifetime, limits: ResourceLimits, services: HostServices, clock: Clock) -> None:
        super().__init__(lifetime, limits)
        self.services = services
        self.clock = clock
        self.logs: list[LogEntry] = []
        self.log_entries_dropped = 0
        self.written_failure: dict[str, Any] | None = None
        """The failure that the guest wrote before it ended itself."""
        self._parts: dict[Any, Any] | None = None
        self._at_end: list[Callable[[], None]] | None = None

    def part(self, make: Callable[[], Part]) -> Part:
        """Return the object that `make` creates for this call. It is created once, on first use.

        Imports store their own state of a call in such objects.
        """
        if self._parts is None:
            self._parts = {}
        if make not in self._parts:
            self._parts[make] = make()
        return self._parts[make]  # type: ignore[no-any-return]

    def at_end(self, act: Callable[[], None]) -> None:
        """Register `act`, which `finish` runs after the guest has ended successfully."""
        if self._at_end is None:
            self._at_end = []
        self._at_end.append(act)

    def finish(self) -> None:
        """Run the registered actions. An error that one of them raises ends the call. Calling this twice is safe."""
        for act in self._at_end or ():
            act()

    def log(self, level: LogLevel, message: str) -> None:
        """Add a log entry, truncated on a character boundary. If the log is full, drop and count the entry."""
        if len(self.logs) >= MAX_LOG_ENTRIES:
            self.log_entries_dropped += 1
            return
        # Keep some bytes over the limit: a secret that crosses the limit must be complete when the entry is scanned.
        message = cut_log(message, LOG_OVERLAP_BYTES)
        self.logs.append(LogEntry(level, message, self.clock.now_ns() // 1_000_000))
