"""Sliding windows of requests per (user, tool), in memory or in a Redis that several machines share."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import quote

from wasmrt.errors import RateLimitedError
from wasmrt.limits import MAX_RATE_KEYS

if TYPE_CHECKING:
    from wasmrt.capabilities import RateLimitConfig


class Window(NamedTuple):
    """One sliding window: no more than so many in any `seconds`."""

    name: str
    seconds: int


WINDOWS = (Window("minute", 60), Window("hour", 3600))
Limits = tuple[int, int]
"""How many the minute and the hour may hold."""


class Windows(Protocol):
    """Where requests are counted, under keys that are unique to a user, a tool and a kind of request."""

    def record(self, key: str, limits: Limits) -> Window | None:
        """Take a place in both windows, or none and return the one that is full; no race can overrun either."""

    def look(self, key: str, window: Window, limit: int) -> tuple[float, int]:
        """Return when the oldest counted request was, and how many there are."""


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
            from wasmrt.rates._redis import RedisWindows  # `limits` alone takes 50 ms to import

            self._storage = RedisWindows(redis_url)

    def check_and_record(self, user: str, tool: str, config: RateLimitConfig, *, what: str = "http") -> None:
        """Record one request of `what` kind, or refuse it; what is refused is not recorded.

        Raises:
            RateLimitedError: a window is full; `retry_after_seconds` says when it opens again.
            ExternalServiceError: Redis does not answer. No answer is no permission.
        """
        key, limits = _key(user, tool, what), (config.requests_per_minute, config.requests_per_hour)
        full = self._storage.record(key, limits)
        if full is None:
            return
        limit = limits[WINDOWS.index(full)]
        oldest, _ = self._storage.look(key, full, limit)
        wait = min(max(0.0, oldest + full.seconds - self._now()), full.seconds)
        raise RateLimitedError(
            f"the tool may send {limit} requests per {full.name}",
            retry_after_seconds=wait,
            hint=f"wait {wait:.0f} s, or raise {what}.rate_limit.requests_per_{full.name}",
        )

    def remaining(self, user: str, tool: str, config: RateLimitConfig, *, what: str = "http") -> tuple[int, int]:
        """Return what is left of the minute's and the hour's window."""
        key, limits = _key(user, tool, what), (config.requests_per_minute, config.requests_per_hour)
        minute, hour = (
            max(0, limit - self._storage.look(key, window, limit)[1])
            for window, limit in zip(WINDOWS, limits, strict=True)
        )
        return minute, hour


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
        self._hits: OrderedDict[str, tuple[deque[float], deque[float]]] = OrderedDict()

    def record(self, key: str, limits: Limits) -> Window | None:
        with self._lock:
            now = self._now()
            held = self._hits.get(key)
            if held is None:
                held = self._hits[key] = (deque(), deque())
                if len(self._hits) > MAX_RATE_KEYS:
                    self._hits.popitem(last=False)
            else:
                self._hits.move_to_end(key)
            minute, hour = held
            _forget(minute, now - 60)
            _forget(hour, now - 3600)
            if len(hour) >= limits[1]:
                return WINDOWS[1]
            if len(minute) >= limits[0]:
                return WINDOWS[0]
            minute.append(now)
            hour.append(now)
            return None

    def look(self, key: str, window: Window, limit: int) -> tuple[float, int]:
        with self._lock:
            now = self._now()
            held = self._hits.get(key)
            hits = held[WINDOWS.index(window)] if held else ()
            current = [hit for hit in hits if hit > now - window.seconds]
            return (current[0] if current else now), len(current)


def _forget(hits: deque[float], start: float) -> None:
    while hits and hits[0] <= start:
        hits.popleft()
