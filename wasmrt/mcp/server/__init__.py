"""A server of the Model Context Protocol for a registry's tools: both eras, decided for each message."""

from __future__ import annotations

from wasmrt.mcp.server._approver import ServedApprover
from wasmrt.mcp.server._caller import LEGACY, MODERN, SUPPORTED, Peer
from wasmrt.mcp.server._offer import Offer, served_name
from wasmrt.mcp.server._server import Server
from wasmrt.mcp.server._stdio import serve_stdio
from wasmrt.mcp.server._watch import watch

__all__ = [
    "LEGACY",
    "MODERN",
    "SUPPORTED",
    "Offer",
    "Peer",
    "ServedApprover",
    "Server",
    "serve_stdio",
    "served_name",
    "watch",
]
