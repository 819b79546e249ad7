"""The context of one call: deadline, budgets, logs, decisions and the first failure.

host/, wasi/ and net/ read and charge it; call/ opens it and turns it into a result. It decides nothing about
capabilities: it only counts, waits and remembers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from wasmrt.context._clock import Clock, SystemClock
from wasmrt.context._services import Services
from wasmrt.errors import (
    BudgetExceededError,
    CancelledError,
    DeadlineExceededError,
    OutputLimitError,
    RuntimeClosedError,
)
from wasmrt.limits import (
    MAX_DECISIONS,
    MAX_HOST_CALLS,
    MAX_HTTP_REQUESTS,
    MAX_LIFTED_VALUES,
    MAX_LOG_ENTRIES,
    MAX_LOG_ENTRY_BYTES,
    MAX_TOOL_INVOCATIONS,
    ResourceLimits,
)
from wasmrt.model import Decision, LogEntry, LogLevel, Usage

if TYPE_CHECKING:
    from wasmrt.capabilities import Capabilities
    from wasmrt.egress import SecretsView
    from wasmrt.leaks import LeakScanner

Part = TypeVar("Part")
LOG_OVERLAP_BYTES = 8192
_TRUNCATED = "... (truncated)"


_SYSTEM_CLOCK = SystemClock()
CLOSING_SECONDS = 0.05
"""Logs and errors of a call that is late are still scanned for this long; what is not done by then is withheld."""
_LONGEST_WAIT_SECONDS = 1e9
_wake_lock = threading.Lock()


def cut_log(message: str, beyond_bytes: int = 0) -> str:
    """A log entry at most `beyond_bytes` over its cap, cut on a character boundary."""
    limit = MAX_LOG_ENTRY_BYTES + beyond_bytes
    if len(message) * 4 <= limit:
        return message
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return message
    return encoded[: limit - len(_TRUNCATED)].decode("utf-8", "ignore") + _TRUNCATED


class CallContext:
    """What happens to one call, from opening to close. Used by one guest at a time; `cancel` from any thread."""

    __slots__ = (
        "_ended_by",
        "_on_end",
        "_parts",
        "_primed",
        "_scan_until",
        "_scanner",
        "_wake",
        "abandoned",
        "call_id",
        "clock",
        "deadline",
        "decisions",
        "decisions_dropped",
        "failure",
        "fuel_used",
        "grant",
        "host_calls",
        "http_received_bytes",
        "http_requests",
        "http_sent_bytes",
        "lifted_values",
        "limits",
        "log_entries_dropped",
        "logs",
        "on_progress",
        "params_bytes",
        "parent",
        "services",
        "started",
        "tool",
        "tool_chain",
        "tool_invocations",
        "user",
    )

    def __init__(
        self,
        *,
        call_id: str,
        tool: str,
        user: str,
        limits: ResourceLimits,
        grant: Capabilities,
        services: Services,
        clock: Clock = _SYSTEM_CLOCK,
        deadline: float | None = None,
        tool_chain: tuple[str, ...] = (),
        parent: CallContext | None = None,
        on_progress: Callable[[int, int | None, str | None], None] | None = None,
    ) -> None:
        self.call_id = call_id
        self.tool = tool
        self.user = user
        self.limits = limits
        self.grant = grant
        self.services = services
        self.clock = clock
        self.tool_chain = tool_chain
        self.parent = parent
        self.on_progress = on_progress
        self.started = time.monotonic()
        own = self.started + limits.timeout_seconds
        self.deadline = own if deadline is None else min(own, deadline)
        self.failure: BaseException | None = None
        self.abandoned = False
        """Its guest is still in the engine's hands, and whoever waited for it no longer does."""
        self.fuel_used = 0
        self.logs: list[LogEntry] = []
        self.log_entries_dropped = 0
        self.decisions: list[Decision] = []
        self.decisions_dropped = 0
        self.host_calls = 0
        self.lifted_values = 0
        self.params_bytes = 0
        self.http_requests = 0
        self.http_sent_bytes = 0
        self.http_received_bytes = 0
        self.tool_invocations = 0
        self._parts: dict[Any, Any] | None = None
        self._ended_by: BaseException | None = None
        self._primed: dict[str, str] = {}
        self._scanner: LeakScanner | None = None
        self._scan_until = self.deadline
        self._wake: threading.Event | None = None
        self._on_end: Callable[[], None] | None = None

    # -- what the engine asks at the border ------------------------------------------------------------------------

    def enter_host(self) -> None:
        self.host_calls += 1
        if self.host_calls > MAX_HOST_CALLS:
            raise BudgetExceededError(
                f"the guest called the host more than {MAX_HOST_CALLS:,} times",
                limit=MAX_HOST_CALLS, used=self.host_calls, setting="limits.MAX_HOST_CALLS",
                hint="have the tool do its work in larger steps",
            )  # fmt: skip
        self.check()

    def leave_host(self) -> None:
        self.check()

    def charge_values(self, count: int) -> None:
        self.lifted_values += count
        if self.lifted_values > MAX_LIFTED_VALUES:
            raise BudgetExceededError(
                f"the guest passed lists of more than {MAX_LIFTED_VALUES:,} values",
                limit=MAX_LIFTED_VALUES,
                used=self.lifted_values,
                setting="limits.MAX_LIFTED_VALUES",
                hint="have the tool pass large data as text or bytes",
            )
        self.check()

    def charge_text(self, size: int) -> None:
        """Raise where a text of the guest is longer than it may answer, or too late."""
        if size > self.limits.output_bytes:
            raise OutputLimitError(
                f"the tool answered with {size:,} bytes, over its cap of {self.limits.output_bytes:,}",
                limit=self.limits.output_bytes,
                used=size,
                setting="limits.output_bytes",
            )
        self.check()

    def fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error

    def interruption(self) -> BaseException | None:
        if self._ended_by is not None:
            return self._ended_by
        return self._late() if time.monotonic() >= self.deadline else None

    # -- time ------------------------------------------------------------------------------------------------------

    def remaining(self) -> float:
        """Seconds until the deadline, never below zero, and no more than threads can be told to wait."""
        return max(0.0, min(self.deadline - time.monotonic(), _LONGEST_WAIT_SECONDS))

    def check(self) -> None:
        """Raise when the call is over: deadline, cancellation or a closed runtime."""
        if self._ended_by is not None:
            raise self._ended_by
        if time.monotonic() >= self.deadline:
            raise self._late()

    def wait(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the call is over: then raise what ended it."""
        self.check()
        self.cancelled.wait(min(seconds, self.remaining()))
        self.check()

    def cancel(self) -> None:
        """End the call from another thread: the guest stops at its next import, sleep or epoch tick."""
        self._end(CancelledError("the call was cancelled"))

    def close(self) -> None:
        """End the call because its runtime is closing."""
        self._end(RuntimeClosedError("the runtime was closed while the call ran"))

    def on_end(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when the call is cancelled or its runtime closes: for waits outside `wait`."""
        self._on_end = wake
        if self._ended_by is not None:
            wake()

    @property
    def cancelled(self) -> threading.Event:
        """Set when the call was cancelled or its runtime closed; made when first asked for."""
        wake = self._wake
        if wake is None:
            with _wake_lock:
                wake = self._wake = self._wake or threading.Event()
            if self._ended_by is not None:
                wake.set()
        return wake

    @property
    def is_over(self) -> bool:
        return self._ended_by is not None or time.monotonic() >= self.deadline

    def _end(self, error: BaseException) -> None:
        if self._ended_by is None:
            self._ended_by = error
        self.cancelled.set()
        if self._on_end is not None:
            self._on_end()

    def _late(self) -> DeadlineExceededError:
        used = time.monotonic() - self.started
        return DeadlineExceededError(
            f"the call passed its deadline of {self.deadline - self.started:g} s",
            limit=self.deadline - self.started, used=used, setting="limits.timeout_seconds",
        )  # fmt: skip

    # -- secrets and leaks -----------------------------------------------------------------------------------------

    @property
    def secrets(self) -> SecretsView | None:
        """The secrets of this call's user."""
        return None if self.services.secrets_of is None else self.services.secrets_of(self.user)

    @property
    def scanner(self) -> LeakScanner:
        """Knows the rules and every secret that was primed so far."""
        if self._scanner is None:
            self._scanner = self.services.detector.primed(self._primed, check=self._check_scan)
        return self._scanner

    def closing(self) -> None:
        """The guest is gone; what it left behind may be scanned for a moment longer, its deadline or not."""
        self._scan_until = max(self._scan_until, time.monotonic() + CLOSING_SECONDS)

    def _check_scan(self) -> None:
        if time.monotonic() >= self._scan_until:
            raise self._late()

    def watch(self, name: str, value: str) -> None:
        """Have `scanner` find `value` from now on; called before a secret is put to use."""
        if self._primed.get(name) != value:
            # A renewed secret keeps the old value watched too, under a name of its own.
            key = name if name not in self._primed else f"{name}#{len(self._primed)}"
            self._primed[key] = value
            self._scanner = None

    # -- budgets ---------------------------------------------------------------------------------------------------

    def charge_http_request(self) -> bool:
        """Count one HTTP request, for the callers too; False where a budget of theirs or the call's is spent."""
        if self.parent is not None and not self.parent.charge_http_request():
            return False
        if self.http_requests >= MAX_HTTP_REQUESTS:
            return False
        self.http_requests += 1
        return True

    def charge_http_bytes(self, *, sent: int, received: int) -> None:
        self.http_sent_bytes += sent
        self.http_received_bytes += received

    def charge_tool_invocation(self) -> bool:
        """Count one invocation of another tool, for the callers too; False where one of the budgets is spent."""
        if self.parent is not None and not self.parent.charge_tool_invocation():
            return False
        if self.tool_invocations >= MAX_TOOL_INVOCATIONS:
            return False
        self.tool_invocations += 1
        return True

    # -- what is remembered ----------------------------------------------------------------------------------------

    def part(self, make: Callable[[], Part]) -> Part:
        """The call's own instance of `make`, built the first time: a room's private state for this call."""
        if self._parts is None:
            self._parts = {}
        if make not in self._parts:
            self._parts[make] = make()
        return self._parts[make]  # type: ignore[no-any-return]

    def release(self) -> None:
        """Close what rooms keep open for this call, its guest being gone: every part that has a `close`."""
        for part in (self._parts or {}).values():
            if (close := getattr(part, "close", None)) is not None:
                close()

    def decide(self, decision: Decision) -> Decision:
        """Remember a decision for the result and the audit record; the ones over the cap are counted."""
        if len(self.decisions) < MAX_DECISIONS:
            self.decisions.append(decision)
        else:
            self.decisions_dropped += 1
        return decision

    def log(self, level: LogLevel, message: str) -> None:
        """Keep a guest's log line, cut on a character boundary; the ones over the cap are counted."""
        if len(self.logs) >= MAX_LOG_ENTRIES:
            self.log_entries_dropped += 1
            return
        # Cut with room to spare: what straddles the cap has to be whole when the entry is scanned at the end.
        message = cut_log(message, LOG_OVERLAP_BYTES)
        self.logs.append(LogEntry(level, message, self.clock.now_ns() // 1_000_000))

    def usage(self, *, output_bytes: int = 0) -> Usage:
        return Usage(
            self.fuel_used,
            int((time.monotonic() - self.started) * 1e6) / 1e6,
            None,
            self.params_bytes,
            output_bytes,
            self.host_calls,
            self.http_requests,
            self.http_sent_bytes,
            self.http_received_bytes,
            self.tool_invocations,
            len(self.logs),
            self.log_entries_dropped,
        )
