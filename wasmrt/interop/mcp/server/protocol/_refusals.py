"""Count refused messages, and combine the counts into few receipts.

The first refusal of a kind is recorded at once; later ones by the same user within a minute share one receipt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from wasmrt.interop.mcp.server.protocol._wire import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)

WINDOW_SECONDS = 60.0
MAX_WINDOWS = 256
"""Combinations of kind and user that are counted separately; further users are counted only by kind."""


class Refusal(StrEnum):
    """The reason that a message was refused: a closed set, without any part of the message."""

    NOT_JSON = "not-json"
    NO_MESSAGE = "no-message"
    UNKNOWN_METHOD = "unknown-method"
    INVALID_PARAMS = "invalid-params"
    UNSUPPORTED_VERSION = "unsupported-version"
    TOO_MANY_REQUESTS = "too-many-requests"
    NO_QUESTION = "answers-no-question"
    # over HTTP
    HEADER_MISMATCH = "header-mismatch"
    NO_SESSION = "no-session"
    NO_TOKEN = "no-token"  # noqa: S105 - a reason, not a password
    INVALID_TOKEN = "invalid-token"  # noqa: S105
    EXPIRED_TOKEN = "expired-token"  # noqa: S105
    MISSING_SCOPE = "missing-scope"
    UNKNOWN_USER = "unknown-user"
    NO_KEYS = "no-keys"
    TOKEN_IN_URL = "token-in-url"  # noqa: S105
    NO_SUCH_PATH = "no-such-path"
    WRONG_METHOD = "wrong-method"
    WRONG_MEDIA_TYPE = "wrong-media-type"
    OTHER_HOST = "other-host"
    OTHER_ORIGIN = "other-origin"
    MALFORMED_HTTP = "malformed-http"
    TOO_LARGE = "too-large"
    TOO_SLOW = "too-slow"
    TOO_MANY_CONNECTIONS = "too-many-connections"


OF_CODE = {
    PARSE_ERROR: Refusal.NOT_JSON,
    INVALID_REQUEST: Refusal.NO_MESSAGE,
    METHOD_NOT_FOUND: Refusal.UNKNOWN_METHOD,
    INVALID_PARAMS: Refusal.INVALID_PARAMS,
    UNSUPPORTED_VERSION: Refusal.UNSUPPORTED_VERSION,
    HEADER_MISMATCH: Refusal.HEADER_MISMATCH,
}


class RefusedMessages(NamedTuple):
    """Messages of one user that were refused for one reason since the last such receipt."""

    refusal: Refusal
    user: str
    """Empty if the sender is unknown."""
    number: int
    first_ms: int
    last_ms: int
    """Unix milliseconds, as `first_ms`."""


@dataclass(slots=True)
class _Window:
    refusal: Refusal
    user: str
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0

    def add(self) -> None:
        self.last_ms = time.time_ns() // 1_000_000
        self.first_ms = self.first_ms if self.count else self.last_ms
        self.count += 1


class Refusals:
    """Counts refused messages, for one event loop."""

    def __init__(self) -> None:
        self._write: Callable[[RefusedMessages], None] | None = None
        self._windows: dict[tuple[Refusal, str], _Window] = {}

    def open(self, write: Callable[[RefusedMessages], None]) -> None:
        """Pass refusals to `write` from now on, starting with those counted so far."""
        self._write = write
        self.flush()

    def note(self, refusal: Refusal, user: str = "") -> None:
        """Count one message."""
        if (refusal, user) not in self._windows and len(self._windows) >= MAX_WINDOWS:
            user = ""
        window = self._windows.get((refusal, user))
        if window is not None:
            window.add()
            return
        window = self._windows[refusal, user] = _Window(refusal, user)
        window.add()
        self._pass_on(window)
        asyncio.get_running_loop().call_later(WINDOW_SECONDS, self._end, window)

    def flush(self) -> None:
        """Record all counts at the end of the server."""
        for window in self._windows.values():
            self._pass_on(window)

    def _end(self, window: _Window) -> None:
        self._pass_on(window)
        if window.count:  # no receipt was written: keep the count
            asyncio.get_running_loop().call_later(WINDOW_SECONDS, self._end, window)
        else:
            del self._windows[window.refusal, window.user]

    def _pass_on(self, window: _Window) -> None:
        if self._write is None or not window.count:
            return
        try:
            self._write(RefusedMessages(window.refusal, window.user, window.count, window.first_ms, window.last_ms))
        except Exception:  # an embedder's function may raise anything; the client must still get its response
            return
        window.count = 0
