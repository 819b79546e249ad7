"""Streamable HTTP, in both eras: one endpoint on loopback, behind a bearer token, with users kept apart."""

from __future__ import annotations

from wasmrt.mcp.server.http._endpoint import PATH, Beside, Endpoint, serve_http
from wasmrt.mcp.server.http._users import UserTokens

__all__ = ["PATH", "Beside", "Endpoint", "UserTokens", "serve_http"]
