"""The guest's side of one call: its budgets, which the engine charges, its clock, its log lines, and its host."""

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
    """Counters of one guest against their limits, and the first failure that stopped it."""

    __slots__ = ("failure", "fuel_used", "host_calls", "lifetime", "lifted_values", "limits")

    def __init__(self, lifetime: Lifetime, limits: ResourceLimits) -> None:
        self.lifetime = lifetime
        self.limits = limits
        self.fuel_used = 0
        self.host_calls = 0
        self.lifted_values = 0
        self.failure: BaseException | None = None

    def enter_host(self) -> None:
        """Count one call of the host.

        Raises:
            BudgetExceededError: the guest has made as many as it may.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call is over.
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
        """Raise when the call ended while the host worked: neither fuel nor epochs see that time."""
        self.lifetime.check()

    def charge_values(self, count: int) -> None:
        """Count values about to be made of what the guest passed.

        Raises:
            BudgetExceededError: they are more than a call may pass.
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
        """Look at the bytes of a text before it is copied.

        Raises:
            OutputLimitError: it is longer than the guest may answer.
        """
        if size > self.limits.output_bytes:
            raise OutputLimitError(
                f"the tool answered with {size:,} bytes, over its cap of {self.limits.output_bytes:,}",
                limit=self.limits.output_bytes, used=size, setting="limits.output_bytes",
            )  # fmt: skip
        self.lifetime.check()

    def fail(self, error: BaseException) -> None:
        """Keep the first failure; the guest is stopped."""
        if self.failure is None:
            self.failure = error

    def interruption(self) -> BaseException | None:
        """Return what ends the guest at this tick, if anything."""
        return self.lifetime.interruption()


Part = TypeVar("Part")
LOG_OVERLAP_BYTES = 16 * KIB
"""Kept behind the cap until the entry is scanned: as long as the longest match of a rule."""
_TRUNCATED = "... (truncated)"


def cut_log(message: str, beyond_bytes: int = 0) -> str:
    """Cut a log entry at most `beyond_bytes` over its cap, on a character boundary."""
    limit = MAX_LOG_ENTRY_BYTES + beyond_bytes
    if len(message) * 4 <= limit:
        return message
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return message
    return encoded[: limit - len(_TRUNCATED)].decode("utf-8", "ignore") + _TRUNCATED


class GuestCall(GuestBudgets):
    """The `ctx` of every import. Used by one guest at a time."""

    __slots__ = ("_at_end", "_parts", "clock", "log_entries_dropped", "logs", "services")

    def __init__(self, lifetime: Lifetime, limits: ResourceLimits, services: HostServices, clock: Clock) -> None:
        super().__init__(lifetime, limits)
        self.services = services
        self.clock = clock
        self.logs: list[LogEntry] = []
        self.log_entries_dropped = 0
        self._parts: dict[Any, Any] | None = None
        self._at_end: list[Callable[[], None]] | None = None

    def part(self, make: Callable[[], Part]) -> Part:
        """Return the call's own instance of `make`, built the first time: an import's private state."""
        if self._parts is None:
            self._parts = {}
        if make not in self._parts:
            self._parts[make] = make()
        return self._parts[make]  # type: ignore[no-any-return]

    def at_end(self, act: Callable[[], None]) -> None:
        """Have `act` done when the guest has ended well."""
        if self._at_end is None:
            self._at_end = []
        self._at_end.append(act)

    def finish(self) -> None:
        """Do what is left once the guest has ended well; it may raise what ends the call. Safe to call twice."""
        for act in self._at_end or ():
            act()

    def log(self, level: LogLevel, message: str) -> None:
        """Keep a log line, cut on a character boundary; the ones over the cap are counted."""
        if len(self.logs) >= MAX_LOG_ENTRIES:
            self.log_entries_dropped += 1
            return
        # Cut with room to spare: what straddles the cap has to be whole when the entry is scanned at the end.
        message = cut_log(message, LOG_OVERLAP_BYTES)
        self.logs.append(LogEntry(level, message, self.clock.now_ns() // 1_000_000))
