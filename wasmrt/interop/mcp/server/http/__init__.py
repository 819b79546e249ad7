"""Streamable HTTP for all protocol revisions: one endpoint on loopback, where bearer tokens identify the users."""

from __future__ import annotations

from wasmrt.interop.mcp.server.http._endpoint import PATH
from wasmrt.interop.mcp.server.http._entrance import Access, BadToken, Entrance, TokenFault, UserTokens
from wasmrt.interop.mcp.server.http._serve import MountedHandler, metrics_server, serve_http

__all__ = [
    "PATH",
    "Access",
    "BadToken",
    "Entrance",
    "MountedHandler",
    "TokenFault",
    "UserTokens",
    "metrics_server",
    "serve_http",
]
