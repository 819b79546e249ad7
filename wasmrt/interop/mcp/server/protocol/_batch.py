"""Batches of 2025-03-26: each message is one of its own, with all rules; the answers are one array.

No other revision has them, so that a message of another one in a batch is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.interop.mcp.server.protocol._caller import is_marked_modern
from wasmrt.interop.mcp.server.protocol._wire import (
    INVALID_REQUEST,
    Answer,
    Batch,
    Id,
    Message,
    Request,
    UnreadableError,
)


def messages_of(batch: Batch) -> list[Message | UnreadableError]:
    """Return the messages of a batch, and errors in place of those that no batch may hold."""
    seen: set[tuple[type, Id]] = set()
    return [_checked(each, seen) for each in batch.messages]


def _checked(message: Message | UnreadableError, seen: set[tuple[type, Id]]) -> Message | UnreadableError:
    if not isinstance(message, Request):
        return message
    key = (type(message.id), message.id)
    if key in seen:
        return UnreadableError(INVALID_REQUEST, "two requests of the batch have this id")
    seen.add(key)
    if message.method == "initialize":  # 2025-03-26, lifecycle
        return UnreadableError(INVALID_REQUEST, "initialize is sent by itself", message.id)
    if is_marked_modern(message):
        return UnreadableError(INVALID_REQUEST, "a request of this revision is sent by itself", message.id)
    return message


class BatchAnswer:
    """Collects the answers to one batch, and sends them as one array once the last of its requests has ended."""

    def __init__(self, send: Callable[[Answer], None]) -> None:
        self._send = send
        self._answers: list[dict[str, Any]] = []
        self._running = 1

    def add(self, answer: Answer) -> None:
        """Take the answer to one request."""
        assert isinstance(answer, dict)
        self._answers.append(answer)

    def begin(self) -> None:
        """Wait for one request more."""
        self._running += 1

    def end(self) -> None:
        """Say that one request has ended, answered or cancelled; or, once, that all of them have begun."""
        self._running -= 1
        if not self._running and self._answers:
            self._send(self._answers)
