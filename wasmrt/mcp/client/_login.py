"""Logins at a server's authorization server: tokens kept as secrets, sent by the SDK, renewed once when refused."""

from __future__ import annotations

from typing import Any

from wasmrt.mcp.client._settings import McpServerConfig
from wasmrt.secrets import SecretsStore


def login_for(server: McpServerConfig, secrets: SecretsStore | None, user: str, auth_origins: tuple[str, ...]) -> Any:
    """Return what sends the token of a user's login; None where nobody has logged in."""
    return None
