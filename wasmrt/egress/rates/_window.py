"""Sliding windows that requests are counted in, in the memory of this process."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from wasmrt.core.limits import MAX_RATE_KEYS


class Window(NamedTuple):
    """A sliding window: at most a limited number of requests in any `seconds`."""

    name: str
    seconds: int


WINDOWS = (Window("minute", 60), Window("hour", 3600))
Limits = tuple[int, int]
"""Requests allowed per minute and per hour."""


class WindowStore(Protocol):
    """Counts of requests, by keys that are unique to a user, a tool and a kind of request."""

    def record(self, key: str, limits: Limits) -> Window | None:
        """Count a request in both windows, or in none and return the full one; no race can overrun either."""

    def inspect(self, key: str, window: Window, limit: int) -> tuple[float, int]:
        """Return the time of the oldest counted request, in seconds of the store's clock, and their number."""


class MemoryWindows:
    """Windows of this process; the least recently used key is dropped when there are more than `MAX_RATE_KEYS`.

    The memory storage of `limits` starts a timer thread for every burst, reads the wall clock and never drops a key.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._hits: OrderedDict[str, tuple[deque[float], deque[float]]] = OrderedDict()

    def record(self, key: str, limits: Limits) -> Window | None:
        """Count a request in both windows, or in none and return the full one."""
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
            _drop_until(minute, now - WINDOWS[0].seconds)
            _drop_until(hour, now - WINDOWS[1].seconds)
            if len(hour) >= limits[1]:
                return WINDOWS[1]
            if len(minute) >= limits[0]:
                return WINDOWS[0]
            minute.append(now)
            hour.append(now)
            return None

    def inspect(self, key: str, window: Window, limit: int) -> tuple[float, int]:
        """Return the time of the oldest counted request in the window, and their number."""
        with self._lock:
            now = self._now()
            held = self._hits.get(key)
            hits = held[WINDOWS.index(window)] if held else ()
            current = [hit for hit in hits if hit > now - window.seconds]
            return (current[0] if current else now), len(current)


def _drop_until(hits: deque[float], start: float) -> None:
    while hits and hits[0] <= start:
        hits.popleft()
