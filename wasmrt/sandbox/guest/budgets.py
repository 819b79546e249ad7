"""The budgets of one guest, charged by the engine at its border: time, host calls, values, the length of an answer."""

from __future__ import annotations

from wasmrt.core.errors import BudgetExceededError, OutputLimitError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_HOST_CALLS, MAX_LIFTED_VALUES, ResourceLimits


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
