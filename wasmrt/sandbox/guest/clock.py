"""A guest's time and randomness: the system's, or a replay's."""

from __future__ import annotations

import os
import time
from typing import Protocol

from blake3 import blake3

from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import CLOCK_RESOLUTION_NS

SEED_BYTES = 16
"""Size of the seed of a `LogicalClock`."""


class Clock(Protocol):
    """The source of a guest's time and randomness."""

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""

    def sleep(self, lifetime: Lifetime, seconds: float) -> None:
        """Let `seconds` pass for the guest, within the call's deadline."""


class SystemClock:
    """The system's time, truncated to a millisecond for the wall clock, and the system's randomness."""

    resolution_ns = 1_000_000
    monotonic_resolution_ns = CLOCK_RESOLUTION_NS

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""
        return time.time_ns() // self.resolution_ns * self.resolution_ns

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        # Truncated as well: cache-timing attacks need a fine timer.
        return time.monotonic_ns() // self.monotonic_resolution_ns * self.monotonic_resolution_ns

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        return os.urandom(count)

    def sleep(self, lifetime: Lifetime, seconds: float) -> None:
        """Let `seconds` pass for the guest, within the call's deadline."""
        lifetime.wait(seconds)


class LogicalClock:
    """A deterministic clock that advances only when it is read or slept on, with seeded randomness.

    With `waits`, a sleep takes real time, so that a guest which waits for another process does not run ahead of it.
    """

    resolution_ns = 1_000_000

    def __init__(self, *, seed: int = 0, start_ns: int = 1_767_225_600_000_000_000, waits: bool = False) -> None:
        self.seed = seed
        self.start_ns = start_ns
        self.waits = waits
        self._elapsed_ns = 0
        self._drawn = 0

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""
        return self.start_ns + self._tick()

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        return self._tick()

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        self._drawn += 1
        return blake3(f"{self.seed}:{self._drawn}".encode()).digest(length=count)

    def sleep(self, lifetime: Lifetime, seconds: float) -> None:
        """Let `seconds` pass for the guest, within the call's deadline."""
        if self.waits:
            lifetime.wait(seconds)
        lifetime.check()
        self._elapsed_ns += int(seconds * 1e9)

    def _tick(self) -> int:
        self._elapsed_ns += self.resolution_ns
        return self._elapsed_ns
