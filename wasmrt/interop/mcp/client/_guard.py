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
    MAX_MCP_ENTRIES,
    MAX_MCP_MESSAGE_BYTES,
    MAX_MCP_OPEN_REQUESTS,
    MAX_MCP_WINDOW_NOTICE_BYTES,
    MAX_MCP_WINDOW_NOTICES,
    MAX_MCP_WINDOW_REQUESTS,
    MCP_WINDOW_SECONDS,
)
from wasmrt.core.strict_json import JsonError, check_nesting, check_size, check_text, read_json, write_json

_MAX_FORGOTTEN = 1024
"""Maximum number of IDs of answered requests to remember. A second answer to a remembered request is ignored."""
_MAX_LATE = 64
_MAX_QUOTES = 200_000
"""Quotation marks in one message; a list of a million short strings takes seconds to read and to check."""
_PASSED_ON = frozenset(
    {
        "notifications/progress",
        "notifications/cancelled",
        "notifications/tools/list_changed",
        "notifications/subscriptions/acknowledged",
        "notifications/elicitation/complete",
    }
)


def make_protocol_error(sentence: str) -> GuestOutputError:
    """Return the error for a server that violates the protocol or a limit."""
    return GuestOutputError(
        f"the MCP server {sentence}, and was disconnected", code="mcp-protocol", hint="report it to the server's author"
    )


def read_line(line: bytes) -> JSONRPCMessage | None:
    """Return the message in a line, or None if the line is not JSON.

    Raises:
        GuestOutputError: the line is JSON that exceeds a limit, or not a single message.
    """
    text = line.strip()
    if not text.startswith((b"{", b"[")):
        return None
    if text.count(b'"') - text.count(b'\\"') > _MAX_QUOTES:
        raise make_protocol_error(f"sent a message with more than {_MAX_QUOTES:,} quotation marks")
    try:
        value = read_json(text, max_bytes=MAX_MCP_MESSAGE_BYTES, max_depth=MAX_JSON_DEPTH + 8, max_parts=MAX_JSON_PARTS)
        if b"\\u" in text:
            check_text(value)
    except JsonError as error:
        if text.startswith(b"[") and text[1:2].isalpha():
            return None  # log output
        raise make_protocol_error(f"sent a message that is {error!s:.120}") from error
    if not isinstance(value, dict):
        raise make_protocol_error("sent a batch of messages")
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError as error:
        raise make_protocol_error("sent JSON that is not a JSON-RPC 2.0 message") from error
    return message


def check_message(message: JSONRPCMessage) -> int:
    """Check a parsed message against the same limits; return its size in bytes.

    Raises:
        GuestOutputError: the message exceeds a limit, or contains values that JSON does not have.
    """
    try:
        text = write_json(message.model_dump(by_alias=True, exclude_unset=True))
        check_size(text, max_bytes=MAX_MCP_MESSAGE_BYTES)
        check_nesting(text, max_depth=MAX_JSON_DEPTH + 8, max_parts=MAX_JSON_PARTS)
        text.encode()
    except (JsonError, UnicodeEncodeError) as error:
        raise make_protocol_error("sent a message that exceeds a limit, or is not JSON") from error
    return len(text)


def check_entries(message: JSONRPCMessage) -> None:
    """Limit the entries of a message: the SDK validates them in one C call, which stops all other threads.

    Raises:
        GuestOutputError: there are more than `MAX_MCP_ENTRIES`.
    """
    if not isinstance(message, JSONRPCResponse):
        return
    entries = _list_entries(message.result)
    if len(entries) > MAX_MCP_ENTRIES or sum(len(_list_entries(entry)) for entry in entries) > MAX_MCP_ENTRIES:
        raise make_protocol_error(f"sent over {MAX_MCP_ENTRIES:,} entries in one message")


def _list_entries(value: object) -> list[Any]:
    lists = value.values() if isinstance(value, dict) else ()
    return [entry for each in lists if isinstance(each, list) for entry in each]


class MessageGuard:
    """The limits of one connection. All messages pass it, in the connection's event loop."""

    def __init__(self) -> None:
        self.failure: WasmrtError | None = None
        """The reason that the connection was ended, or None."""
        self._waiting: set[Any] = set()
        self._answered: OrderedDict[Any, None] = OrderedDict()
        self._asked: set[Any] = set()
        self._late = 0
        self._since = time.monotonic()
        self._notices = self._bytes = self._requests = 0

    def outgoing(self, message: JSONRPCMessage) -> None:
        """Record a sent message: requests expect a response, responses end a server's request."""
        if isinstance(message, JSONRPCRequest):
            self._waiting.add(_normalize_id(message.id))
        elif isinstance(message, JSONRPCResponse | JSONRPCError):
            self._asked.discard(_normalize_id(message.id))

    def incoming(self, message: JSONRPCMessage, size: int | None = None) -> bool:
        """Return whether to pass on a message; `size` is the size of its line if `read_line` read it.

        Raises:
            GuestOutputError: the message violates a limit and ends the connection.
        """
        try:
            check_entries(message)
            return self._passes(message, check_message(message) if size is None else size)
        except GuestOutputError as error:
            self.failure = self.failure or error
            raise

    def _passes(self, message: JSONRPCMessage, size: int) -> bool:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            return self._is_expected(_normalize_id(message.id))
        self._count(size)
        if isinstance(message, JSONRPCNotification):
            return message.method in _PASSED_ON
        key = _normalize_id(message.id)
        if key in self._asked:
            raise make_protocol_error("sent two requests with one id")
        self._asked.add(key)
        self._requests += 1
        if self._requests > MAX_MCP_WINDOW_REQUESTS or len(self._asked) > MAX_MCP_OPEN_REQUESTS:
            raise make_protocol_error(
                f"sent over {MAX_MCP_WINDOW_REQUESTS} requests a minute, or {MAX_MCP_OPEN_REQUESTS} at once"
            )
        return True

    def _is_expected(self, key: Any) -> bool:
        if key in self._waiting:
            self._waiting.discard(key)
            self._answered[key] = None
            if len(self._answered) > _MAX_FORGOTTEN:
                self._answered.popitem(last=False)
            return True
        # SECURITY: a response without a pending request must not answer a different request.
        if key not in self._answered:
            raise make_protocol_error("answered a request that was not sent")
        self._late += 1
        if self._late > _MAX_LATE:
            raise make_protocol_error("answered one request too often")
        return False

    def _count(self, size: int) -> None:
        now = time.monotonic()
        if now - self._since > MCP_WINDOW_SECONDS:
            self._since, self._notices, self._bytes, self._requests = now, 0, 0, 0
        self._notices += 1
        self._bytes += size
        if self._notices > MAX_MCP_WINDOW_NOTICES or self._bytes > MAX_MCP_WINDOW_NOTICE_BYTES:
            raise make_protocol_error("sent too many notifications")


def _normalize_id(value: Any) -> Any:
    """Return an ID for comparison: the SDK treats `"7"` as 7 (JSON-RPC 2.0, 5)."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return value


Streams = tuple[Any, Any]
"""A stream to read from and a stream to write to, as in the SDK's transports."""


@asynccontextmanager
async def guard_streams(
    transport: Callable[[], AbstractAsyncContextManager[Streams]], guard: MessageGuard
) -> AsyncIterator[Streams]:
    """Wrap a transport of the SDK: a message that exceeds a limit ends the connection."""
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
