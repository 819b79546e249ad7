"""A client of MCP servers, which are reached through the gateway or run confined. Their tools join a registry.

The SDK implements the protocol (extra `wasmrt[mcp]`). This package adds consent to commands, confinement, limits on
every message before the SDK parses it, effects by trust, and approval of changed definitions.
"""

from __future__ import annotations

import logging

try:
    import mcp as _sdk  # noqa: F401
except ModuleNotFoundError as error:  # pragma: no cover - the tests have it
    from wasmrt.core.errors import ConfigurationError

    raise ConfigurationError(
        "MCP servers need a package that is not installed", code="missing-extra", hint="pip install 'wasmrt[mcp]'"
    ) from error

from wasmrt.interop.mcp.client._authorize import authorize, discover, log_in_known
from wasmrt.interop.mcp.client._client import ClientParts, McpClient, ServerFacts
from wasmrt.interop.mcp.client._definition import Definition, describe_claim, list_differences
from wasmrt.interop.mcp.client._files import (
    NOTHING,
    Trusted,
    read_servers,
    read_trusted,
    server_named,
    trust_server,
    write_servers,
    write_trusted,
)
from wasmrt.interop.mcp.client._kept import (
    add_configured_servers,
    find_server,
    forget_server,
    keep_server,
    load_servers,
    wants_login,
)
from wasmrt.interop.mcp.client._login import KeptLogin
from wasmrt.interop.mcp.client._offer import add_servers, default_parts, offer_tools, refused_tools
from wasmrt.interop.mcp.client._program import consent_lines, find_program
from wasmrt.interop.mcp.client._settings import McpServerConfig, OAuthConfig, Transport, Trust
from wasmrt.interop.mcp.client._tool import McpTool, offer_of, tool_name

# Without a handler, logging would print server output to the program's standard error.
logging.getLogger("mcp").addHandler(logging.NullHandler())

__all__ = [
    "NOTHING",
    "ClientParts",
    "Definition",
    "KeptLogin",
    "McpClient",
    "McpServerConfig",
    "McpTool",
    "OAuthConfig",
    "ServerFacts",
    "Transport",
    "Trust",
    "Trusted",
    "add_configured_servers",
    "add_servers",
    "authorize",
    "consent_lines",
    "default_parts",
    "describe_claim",
    "discover",
    "find_program",
    "find_server",
    "forget_server",
    "keep_server",
    "list_differences",
    "load_servers",
    "log_in_known",
    "offer_of",
    "offer_tools",
    "read_servers",
    "read_trusted",
    "refused_tools",
    "server_named",
    "tool_name",
    "trust_server",
    "wants_login",
    "write_servers",
    "write_trusted",
]
