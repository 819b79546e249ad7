"""The windows that requests are counted in, and what stores the counts."""

from __future__ import annotations

from typing import NamedTuple, Protocol


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
