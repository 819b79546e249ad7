"""Limits on a server's messages, checked before the SDK handles them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from wasmrt.core.errors import GuestOutputError, WasmrtError
from wasmrt.core.limits import (
    MAX_JSON_DEPTH,
    MAX_JSON_PARTS,
    MAX_MCP_MESSAGE_BYTES,
    MAX_MCP_OPEN_REQUESTS,
    MAX_MCP_WINDOW_NOTICE_BYTES,
    MAX_MCP_WINDOW_NOTICES,
    MAX_MCP_WINDOW_REQUESTS,
    MCP_WINDOW_SECONDS,
)
from wasmrt.core.strict_json import JsonError, check_nesting, check_size, check_text, read_json, write_json

_MAX_FORGOTTEN = 1024
"""Ids of requests that were answered, of which a second answer is no wonder."""
_MAX_LATE = 64
_PASSED_ON = frozenset(
    {
        "notifications/progress",
        "notifications/cancelled",
        "notifications/tools/list_changed",
        "notifications/subscriptions/acknowledged",
        "notifications/elicitation/complete",
    }
)


def broken(sentence: str) -> GuestOutputError:
    """Return the error of a server that does not keep to the protocol or its bounds."""
    return GuestOutputError(
        f"the MCP server {sentence}, and was disconnected", code="mcp-protocol", hint="tell its author"
    )


def read_line(line: bytes) -> JSONRPCMessage | None:
    """Return the message of a line; None for a line of something else.

    Raises:
        GuestOutputError: the line is JSON that exceeds a limit, or not a single message.
    """
    text = line.strip()
    if not text.startswith((b"{", b"[")):
        return None
    try:
        value = read_json(text, max_bytes=MAX_MCP_MESSAGE_BYTES, max_depth=MAX_JSON_DEPTH + 8, max_parts=MAX_JSON_PARTS)
        check_text(value)
    except JsonError as error:
        if text.startswith(b"[") and text[1:2].isalpha():
            return None  # a line of a log
        raise broken(f"sent a message that is {error!s:.120}") from error
    if not isinstance(value, dict):
        raise broken("sent several messages in one")
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError as error:
        raise broken("sent JSON that is no message of JSON-RPC 2.0") from error
    return message


def check_message(message: JSONRPCMessage) -> int:
    """Check a parsed message against the same limits; return its size in bytes.

    Raises:
        GuestOutputError: it exceeds a limit, or contains values that JSON does not have.
    """
    try:
        text = write_json(message.model_dump(by_alias=True, exclude_unset=True))
        check_size(text, max_bytes=MAX_MCP_MESSAGE_BYTES)
        check_nesting(text, max_depth=MAX_JSON_DEPTH + 8, max_parts=MAX_JSON_PARTS)
        text.encode()
    except (JsonError, UnicodeEncodeError) as error:
        raise broken("sent a message that is over a bound, or no JSON") from error
    return len(text)


class MessageGuard:
    """The bounds of one connection. Every message of either way passes it, on the loop of the connection."""

    def __init__(self) -> None:
        self.failure: WasmrtError | None = None
        """The reason that the connection was ended, once it was."""
        self._waiting: set[Any] = set()
        self._answered: OrderedDict[Any, None] = OrderedDict()
        self._asked: set[Any] = set()
        self._late = 0
        self._since = time.monotonic()
        self._notices = self._bytes = self._requests = 0

    def outgoing(self, message: JSONRPCMessage) -> None:
        """Note what is sent: requests wait for an answer, answers end a question of the server."""
        if isinstance(message, JSONRPCRequest):
            self._waiting.add(_id(message.id))
        elif isinstance(message, JSONRPCResponse | JSONRPCError):
            self._asked.discard(_id(message.id))

    def incoming(self, message: JSONRPCMessage, size: int | None = None) -> bool:
        """Return whether a message is passed on; `size` is the size of its line if `read_line` read it.

        Raises:
            GuestOutputError: it ends the connection.
        """
        try:
            return self._passes(message, check_message(message) if size is None else size)
        except GuestOutputError as error:
            self.failure = self.failure or error
            raise

    def _passes(self, message: JSONRPCMessage, size: int) -> bool:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            return self._is_expected(_id(message.id))
        self._count(size)
        if isinstance(message, JSONRPCNotification):
            return message.method in _PASSED_ON
        key = _id(message.id)
        if key in self._asked:
            raise broken("asked twice under one id")
        self._asked.add(key)
        self._requests += 1
        if self._requests > MAX_MCP_WINDOW_REQUESTS or len(self._asked) > MAX_MCP_OPEN_REQUESTS:
            raise broken(f"asked over {MAX_MCP_WINDOW_REQUESTS} questions a minute, or {MAX_MCP_OPEN_REQUESTS} at once")
        return True

    def _is_expected(self, key: Any) -> bool:
        if key in self._waiting:
            self._waiting.discard(key)
            self._answered[key] = None
            if len(self._answered) > _MAX_FORGOTTEN:
                self._answered.popitem(last=False)
            return True
        # SECURITY: a response without a pending request must not answer a different one.
        if key not in self._answered:
            raise broken("answered a request that nobody made")
        self._late += 1
        if self._late > _MAX_LATE:
            raise broken("answered requests over and over")
        return False

    def _count(self, size: int) -> None:
        now = time.monotonic()
        if now - self._since > MCP_WINDOW_SECONDS:
            self._since, self._notices, self._bytes, self._requests = now, 0, 0, 0
        self._notices += 1
        self._bytes += size
        if self._notices > MAX_MCP_WINDOW_NOTICES or self._bytes > MAX_MCP_WINDOW_NOTICE_BYTES:
            raise broken("sent more notices than anybody reads")


def _id(value: Any) -> Any:
    """Return an id as it is compared: the SDK takes `"7"` for 7 (JSON-RPC 2.0, 5)."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return value


Streams = tuple[Any, Any]
"""To read from and to write to, as the SDK's transports yield them."""


@asynccontextmanager
async def guarded(
    transport: Callable[[], AbstractAsyncContextManager[Streams]], guard: MessageGuard
) -> AsyncIterator[Streams]:
    """Put a guard around a transport of the SDK: a message that breaks a bound ends the connection."""
    async with transport() as (read, write):
        inbound, session_read = anyio.create_memory_object_stream[Any](0)
        session_write, outbound = anyio.create_memory_object_stream[Any](0)

        async def receive() -> None:
            async with inbound:
                async for item in read:
                    if isinstance(item, SessionMessage):
                        try:
                            if not guard.incoming(item.message):
                                continue
                        except GuestOutputError:
                            return
                    try:
                        await inbound.send(item)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        return

        async def send() -> None:
            async with outbound, write:
                async for item in outbound:
                    guard.outgoing(item.message)
                    try:
                        await write.send(item)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            tasks.start_soon(send)
            try:
                yield session_read, session_write
            finally:
                tasks.cancel_scope.cancel()
                for stream in (inbound, session_read, session_write, outbound):
                    stream.close()
