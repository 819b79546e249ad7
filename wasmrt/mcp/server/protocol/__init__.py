"""The protocol, over any transport: messages, the two eras, requests that run at once; and the stdio transport."""

from __future__ import annotations

from wasmrt.mcp.server.protocol._caller import LEGACY, MODERN, SUPPORTED, Caller, Peer
from wasmrt.mcp.server.protocol._connection import Connection
from wasmrt.mcp.server.protocol._progress import ProgressReport
from wasmrt.mcp.server.protocol._server import Channel, Server, Toolbox
from wasmrt.mcp.server.protocol._stdio import serve_stdio
from wasmrt.mcp.server.protocol._wire import INVALID_PARAMS, MAX_MESSAGE_BYTES, Request, RpcError

__all__ = [
    "INVALID_PARAMS",
    "LEGACY",
    "MAX_MESSAGE_BYTES",
    "MODERN",
    "SUPPORTED",
    "Caller",
    "Channel",
    "Connection",
    "Peer",
    "ProgressReport",
    "Request",
    "RpcError",
    "Server",
    "Toolbox",
    "serve_stdio",
]
