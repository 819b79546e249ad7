"""Sliding windows of requests per (user, tool), in memory or in a Redis that several machines share."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from wasmrt.errors import RateLimitedError
from wasmrt.limits import MAX_RATE_KEYS

if TYPE_CHECKING:
    from wasmrt.capabilities import RateLimitConfig


class Windows(Protocol):
    """Where requests are counted; both methods are atomic."""

    def acquire_entry(self, key: str, limit: int, expiry: int) -> bool:
        """Count one more request of `key`, unless there were `limit` in the last `expiry` seconds."""

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return when the oldest counted request was, and how many there are."""


@dataclass(frozen=True, slots=True)
class _Window:
    name: str
    seconds: int
    limit: int


class RateLimiter:
    """Count requests per (user, tool) in a minute's and an hour's window, exact to the request.

    `redis_url` (`redis://` or `rediss://`) shares the windows between processes and machines; without it they
    live in this object.

    Raises:
        ConfigurationError: the URL is not one of Redis, or the `redis` package is missing.
    """

    def __init__(self, *, redis_url: str | None = None, now: Callable[[], float] = time.monotonic) -> None:
        # Machines have only the wall clock in common.
        self._now: Callable[[], float] = now if redis_url is None else time.time
        self._storage: Windows = _MemoryWindows(now)
        if redis_url is not None:
            from wasmrt.net._redis import RedisWindows  # `limits` alone takes 50 ms to import

            self._storage = RedisWindows(redis_url)
        self._lock = threading.Lock()

    def check_and_record(self, user: str, tool: str, config: RateLimitConfig, *, what: str = "http") -> None:
        """Record one request of `what` kind, or refuse it; what is refused is not recorded.

        Raises:
            RateLimitedError: a window is full; `retry_after_seconds` says when it opens again.
            ExternalServiceError: Redis does not answer. No answer is no permission.
        """
        key = _key(user, tool, what)
        full = self._record(_windows(config), key)
        if full is None:
            return
        oldest, _ = self._look(full, key)
        wait = min(max(0.0, oldest + full.seconds - self._now()), full.seconds)
        raise RateLimitedError(
            f"the tool may send {full.limit} requests per {full.name}",
            retry_after_seconds=wait,
            hint=f"wait {wait:.0f} s, or raise {what}.rate_limit.requests_per_{full.name}",
        )

    def remaining(self, user: str, tool: str, config: RateLimitConfig, *, what: str = "http") -> tuple[int, int]:
        """Return what is left of the minute's and the hour's window."""
        key = _key(user, tool, what)
        left = [max(0, window.limit - self._look(window, key)[1]) for window in _windows(config)]
        return left[0], left[1]

    def _record(self, windows: tuple[_Window, _Window], key: str) -> _Window | None:
        """Take a place in both windows, or return the one that is full.

        Each acquisition is atomic by itself (a lock, or a script in Redis), so neither window can be overrun.
        Looking at the hour first keeps a refused request from taking a place in the minute; only machines
        that race for the last place of an hour can lose one of a minute, which is the safe side.
        """
        hour = windows[1]
        with self._lock:
            if self._look(hour, key)[1] >= hour.limit:
                return hour
            for window in windows:
                if not self._storage.acquire_entry(f"{key}/{window.name}", window.limit, window.seconds):
                    return window
        return None

    def _look(self, window: _Window, key: str) -> tuple[float, int]:
        return self._storage.get_moving_window(f"{key}/{window.name}", window.limit, window.seconds)


def _windows(config: RateLimitConfig) -> tuple[_Window, _Window]:
    return _Window("minute", 60, config.requests_per_minute), _Window("hour", 3600, config.requests_per_hour)


@lru_cache(maxsize=4096)
def _key(user: str, tool: str, what: str) -> str:
    # SECURITY: quoted, or user "a/b" with tool "c" would share the windows of user "a" with tool "b/c".
    return "/".join(quote(part, safe="") for part in (what, user, tool))


class _MemoryWindows:
    """Moving windows in this process.

    The memory storage of `limits` starts a timer thread for every burst, reads the wall clock and never forgets a
    key; this one does not, and the least recently used key goes first when there are too many.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._hits: OrderedDict[str, deque[float]] = OrderedDict()

    def acquire_entry(self, key: str, limit: int, expiry: int) -> bool:
        with self._lock:
            hits = self._current(key, expiry)
            if len(hits) >= limit:
                return False
            hits.append(self._now())
            self._hits[key] = hits
            self._hits.move_to_end(key)
            if len(self._hits) > MAX_RATE_KEYS:
                self._hits.popitem(last=False)
            return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        with self._lock:
            hits = self._current(key, expiry)
            return (hits[0] if hits else self._now()), len(hits)

    def _current(self, key: str, expiry: int) -> deque[float]:
        hits = self._hits.get(key) or deque()
        start = self._now() - expiry
        while hits and hits[0] <= start:
            hits.popleft()
        return hits
