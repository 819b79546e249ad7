"""Progress of a call, for a client that gave a token for it: growing, bounded, and over with the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from wasmrt.interop.mcp.server.protocol._wire import MAX_ID_CHARS, Request, notification_message

MAX_REPORTS = 1000
"""Of one call; what a tool reports beyond them is not sent."""
_MAX_MESSAGE_CHARS = 500


class ProgressReport:
    """Sends what a tool reports, from whatever thread it does so, to the event loop that this was made in."""

    def __init__(self, token: str | int, send: Callable[[dict[str, Any]], None]) -> None:
        self._token = token
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._last: float | None = None
        self._left = MAX_REPORTS

    @classmethod
    def of(cls, request: Request, send: Callable[[dict[str, Any]], None]) -> ProgressReport | None:
        """Return the report that a request asks for; None where it asks for none."""
        token = request.meta.get("progressToken")
        if isinstance(token, bool) or not isinstance(token, (str, int)) or len(str(token)) > MAX_ID_CHARS:
            return None
        return cls(token, send)

    def report(self, done: int, total: int | None, message: str | None) -> None:
        """Send the progress, unless it does not grow."""
        try:
            self._loop.call_soon_threadsafe(self._report, done, total, message)
        except RuntimeError:  # the loop is closed: nobody listens
            self._left = 0

    def end(self) -> None:
        """Send nothing more: the call is over."""
        self._left = 0

    def _report(self, done: float, total: float | None, message: str | None) -> None:
        if self._left <= 0 or (self._last is not None and done <= self._last):
            return
        self._left -= 1
        self._last = done
        params: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = "".join(char for char in message if char.isprintable())[:_MAX_MESSAGE_CHARS]
        self._send(notification_message("notifications/progress", params))
