"""The tools of configured MCP servers, in the registry of a command."""

from __future__ import annotations

from wasmrt.agent.config import read_config_file
from wasmrt.agent.registry import ToolRegistry
from wasmrt.core.places import find_places


def offer_configured_servers(registry: ToolRegistry) -> None:
    """Offer the tools of the servers that are configured; the registry closes them.

    Raises:
        ConfigurationError: a file of theirs cannot be used, or the package for them is not installed.
    """
    places = find_places()
    if places.mcp_servers.exists() or (places.config.exists() and read_config_file(places.config).extensions.hosts):
        from wasmrt.interop.mcp.client import add_configured_servers  # with the SDK, which takes a third of a second

        add_configured_servers(registry)
