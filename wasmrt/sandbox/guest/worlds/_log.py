"""Logs, clocks and progress: what every guest may use, within the call's caps."""

from __future__ import annotations

from wasmrt.core.model import LogLevel
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.requests import ReportProgress


def log(ctx: GuestCall, level: str, message: str) -> None:
    """`log` of both worlds."""
    ctx.log(LogLevel(level), message)


def now_millis(ctx: GuestCall) -> int:
    """Unix time in milliseconds."""
    return ctx.clock.now_ns() // 1_000_000


def monotonic(ctx: GuestCall) -> int:
    """Nanoseconds since an arbitrary start."""
    return ctx.clock.monotonic_ns()


def progress(ctx: GuestCall, done: int, total: int | None, message: str | None) -> None:
    """wasmrt:tool's `progress.report`."""
    ctx.services.handle(ReportProgress(done, total, message))
