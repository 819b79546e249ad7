"""Logs, clocks and progress: what every guest may use, within the call's caps."""

from __future__ import annotations

from wasmrt.component import plain
from wasmrt.context import CallContext
from wasmrt.errors import BudgetExceededError
from wasmrt.limits import MAX_LOG_ENTRY_BYTES, MAX_PROGRESS_REPORTS
from wasmrt.model import LogLevel


def log(context: CallContext, level: str, message: str) -> None:
    context.log(LogLevel(level), message)


def now_millis(context: CallContext) -> int:
    return context.clock.now_ns() // 1_000_000


def monotonic(context: CallContext) -> int:
    return context.clock.monotonic_ns()


def progress(context: CallContext, done: int, total: int | None, message: str | None) -> None:
    reports = context.part(_Reports)
    reports.count += 1
    if reports.count > MAX_PROGRESS_REPORTS:
        raise BudgetExceededError(
            f"the guest reported progress more than {MAX_PROGRESS_REPORTS} times",
            limit=MAX_PROGRESS_REPORTS, used=reports.count, setting="limits.MAX_PROGRESS_REPORTS",
            hint="have the tool report less often",
        )  # fmt: skip
    if context.on_progress is not None:
        text = None if message is None else context.scanner.redact(plain(message, MAX_LOG_ENTRY_BYTES))
        context.on_progress(done, total, text)


class _Reports:
    def __init__(self) -> None:
        self.count = 0
