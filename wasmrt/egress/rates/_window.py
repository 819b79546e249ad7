"""Sliding windows for request counts, in this process's memory."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from wasmrt.core.limits import MAX_RATE_KEYS


class Window(NamedTuple):
    """A sliding window of `seconds`, in which a limited number of requests is allowed."""

    name: str
    seconds: int


WINDOWS = (Window("minute", 60), Window("hour", 3600))
Limits = tuple[int, int]
"""Allowed requests per minute and per hour."""


class WindowStore(Protocol):
    """Request counts by key; a key identifies a user, a tool and a kind of request."""

    def record(self, key: str, limits: Limits) -> Window | None:
        """Count a request in both windows atomically. If a window is full, count nothing and return that window."""

    def inspect(self, key: str, window: Window, limit: int) -> tuple[float, int]:
        """Return the time of the oldest counted request, on the store's clock, and the number of counted requests."""


class MemoryWindows:
    """Windows in this process. If there are more than `MAX_RATE_KEYS` keys, the least recently used key is dropped.

    The memory storage of `limits` is not used: it starts a timer thread for every burst, reads the wall clock and never
    drops a key.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._hits: OrderedDict[str, tuple[deque[float], deque[float]]] = OrderedDict()

    def record(self, key: str, limits: Limits) -> Window | None:
        """Count a request in both windows. If a window is full, count nothing and return that window."""
        with self._lock:
            now = self._now()
            windows = self._hits.get(key)
            if windows is None:
                windows = self._hits[key] = (deque(), deque())
                if len(self._hits) > MAX_RATE_KEYS:
                    self._hits.popitem(last=False)
            else:
                self._hits.move_to_end(key)
            minute, hour = windows
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
        """Return the time of the oldest counted request in the window, and the number of counted requests."""
        with self._lock:
            now = self._now()
            windows = self._hits.get(key)
            hits = windows[WINDOWS.index(window)] if windows else ()
            current = [hit for hit in hits if hit > now - window.seconds]
            return (current[0] if current else now), len(current)


def _drop_until(hits: deque[float], start: float) -> None:
    while hits and hits[0] <= start:
        hits.popleft()
