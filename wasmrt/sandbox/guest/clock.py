"""The source of a guest's time and randomness: either the system, or a replay of a recorded call."""

from __future__ import annotations

import os
import time
from typing import Protocol

from blake3 import blake3

from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import CLOCK_RESOLUTION_NS

SEED_BYTES = 16
"""The size of a `LogicalClock`'s seed, in bytes."""


class Clock(Protocol):
    """The source of a guest's time and randomness."""

    def now_ns(self) -> int:
        """Return the Unix time in nanoseconds."""

    def monotonic_ns(self) -> int:
        """Return the nanoseconds since an arbitrary start."""

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""

    def sleep(self, lifetime: Lifetime, seconds: float) -> None:
        """Let `seconds` pass for the guest. Raise an error if the call ends before that."""


class SystemClock:
    """A clock with the system's time and randomness. Times are truncated: the Unix time to a millisecond."""

    resolution_ns = 1_000_000
    monotonic_resolution_ns = CLOCK_RESOLUTION_NS

    def now_ns(self) -> int:
        """Return the Unix time in nanoseconds."""
        return time.time_ns() // self.resolution_ns * self.resolution_ns

    def monotonic_ns(self) -> int:
        """Return the nanoseconds since an arbitrary start."""
        # SECURITY: this time is truncated as well, because cache-timing attacks need a precise timer.
        return time.monotonic_ns() // self.monotonic_resolution_ns * self.monotonic_resolution_ns

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        return os.urandom(count)

    def sleep(self, lifetime: Lifetime, seconds: float) -> None:
        """Let `seconds` pass for the guest. Raise an error if the call ends before that."""
        lifetime.wait(seconds)


class LogicalClock:
    """A deterministic clock with seeded randomness. Its time advances only when a guest reads the clock or sleeps.

    If `waits` is true, a sleep takes real time. So a guest that waits for another process gives it time.
    """

    resolution_ns = 1_000_000

    def __init__(self, *, seed: int = 0, start_ns: int = 1_767_225_600_000_000_000, waits: bool = False) -> None:
        self.seed = seed
        self.start_ns = start_ns
        self.waits = waits
        self._elapsed_ns = 0
        self._drawn = 0

    def now_ns(self) -> int:
        """Return the Unix time in nanoseconds."""
        return self.start_ns + self._tick()

    def monotonic_ns(self) -> int:
        """Return the nanoseconds since an arbitrary start."""
        return self._tick()

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        self._drawn += 1
        return blake3(f"{self.seed}:{self._drawn}".encode()).digest(length=count)

    def sleep(self, lifetime: Lifetime, seconds: float) -> None:
        """Let `seconds` pass for the guest. Raise an error if the call ends before that."""
        if self.waits:
            lifetime.wait(seconds)
        lifetime.check()
        self._elapsed_ns += int(seconds * 1e9)

    def _tick(self) -> int:
        self._elapsed_ns += self.resolution_ns
        return self._elapsed_ns
