"""Where a guest's time and randomness come from: the system's, or a replay's."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

from wasmrt.limits import CLOCK_RESOLUTION_NS

if TYPE_CHECKING:
    from wasmrt.context._context import CallContext


class Clock(Protocol):
    """Where a guest's time and randomness come from."""

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""

    def random_bytes(self, count: int) -> bytes: ...

    def sleep(self, context: CallContext, seconds: float) -> None:
        """Let `seconds` pass for the guest, within the call's deadline."""


class SystemClock:
    """Real time, cut to a millisecond for the wall clock, and the system's randomness."""

    resolution_ns = 1_000_000
    monotonic_resolution_ns = CLOCK_RESOLUTION_NS

    def now_ns(self) -> int:
        return time.time_ns() // self.resolution_ns * self.resolution_ns

    def monotonic_ns(self) -> int:
        # Cut as well: a fine timer is what cache-timing attacks are made of.
        return time.monotonic_ns() // self.monotonic_resolution_ns * self.monotonic_resolution_ns

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def sleep(self, context: CallContext, seconds: float) -> None:
        context.wait(seconds)


class LogicalClock:
    """Time that moves only when it is read or slept, and randomness from a seed: the same call replays the same."""

    resolution_ns = 1_000_000

    def __init__(self, *, seed: int = 0, start_ns: int = 1_767_225_600_000_000_000) -> None:
        self._elapsed_ns = 0
        self._start_ns = start_ns
        from random import Random  # only for calls that are to be replayed

        self._random = Random(seed)  # noqa: S311 - repeatable on purpose; never used for secrets

    def now_ns(self) -> int:
        return self._start_ns + self._tick()

    def monotonic_ns(self) -> int:
        return self._tick()

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def sleep(self, context: CallContext, seconds: float) -> None:
        context.check()
        self._elapsed_ns += int(seconds * 1e9)

    def _tick(self) -> int:
        self._elapsed_ns += self.resolution_ns
        return self._elapsed_ns
