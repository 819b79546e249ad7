"""The protocol, over any transport: messages, the two eras, requests that run at once; and the stdio transport."""

from __future__ import annotations

from wasmrt.mcp.server.protocol._caller import (
    LEGACY,
    MODERN,
    SUPPORTED,
    VERSION_KEY,
    Caller,
    Peer,
    begins_session,
    is_marked_modern,
)
from wasmrt.mcp.server.protocol._connection import Connection
from wasmrt.mcp.server.protocol._progress import ProgressReport
from wasmrt.mcp.server.protocol._server import Channel, Server, Toolbox
from wasmrt.mcp.server.protocol._stdio import serve_stdio
from wasmrt.mcp.server.protocol._wire import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_MESSAGE_BYTES,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Id,
    Notification,
    Request,
    Response,
    RpcError,
    UnreadableError,
    error_message,
    form_message,
    read_message,
    result_message,
    written,
)

__all__ = [
    "HEADER_MISMATCH",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "LEGACY",
    "MAX_MESSAGE_BYTES",
    "METHOD_NOT_FOUND",
    "MISSING_CAPABILITY",
    "MODERN",
    "PARSE_ERROR",
    "SUPPORTED",
    "UNSUPPORTED_VERSION",
    "VERSION_KEY",
    "Caller",
    "Channel",
    "Connection",
    "Id",
    "Notification",
    "Peer",
    "ProgressReport",
    "Request",
    "Response",
    "RpcError",
    "Server",
    "Toolbox",
    "UnreadableError",
    "begins_session",
    "error_message",
    "form_message",
    "is_marked_modern",
    "read_message",
    "result_message",
    "serve_stdio",
    "written",
]
