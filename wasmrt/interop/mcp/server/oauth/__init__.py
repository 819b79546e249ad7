"""This server as a protected resource of OAuth 2.1: its metadata, and the access tokens of one authorization server."""

from __future__ import annotations

from wasmrt.interop.mcp.server.oauth._tokens import AccessTokens, KeySet

__all__ = ["AccessTokens", "KeySet"]
