"""The servers that are configured on this machine, in a registry."""

from __future__ import annotations

from typing import Any

from wasmrt.agent.config import read_config_file
from wasmrt.agent.registry import ToolRegistry
from wasmrt.core.places import find_places
from wasmrt.interop.mcp.client._client import McpClient
from wasmrt.interop.mcp.client._kept import KeptServers, load_servers
from wasmrt.interop.mcp.client._offer import add_servers, default_parts


def add_configured_servers(registry: ToolRegistry, *, sampling: Any = None) -> dict[str, McpClient]:
    """Offer the tools of the servers in `mcp-servers.json`; return the clients by name, which the registry closes.

    What a server asks a person goes to the registry's approver. `sampling` answers servers that want a model, as the
    SDK's `SamplingFnT`; without it none is offered to them.

    Raises:
        ConfigFileError: a file cannot be used, with every mistake of it.

    Example:
        >>> from wasmrt import ToolRegistry, WasmToolRuntime, add_configured_servers
        >>> with WasmToolRuntime() as runtime:
        ...     print(add_configured_servers(ToolRegistry(runtime)))  # without mcp-servers.json
        {}
    """
    places = find_places()
    servers, trusted = load_servers(places)
    config = read_config_file(places.config)
    hosts = config.extensions.hosts
    if not hosts and not any(server.enabled for server in servers.values()):
        return {}
    parts = default_parts(registry.approvals, sampling=sampling, config=config)
    clients = add_servers(registry, servers, trusted, parts)
    registry.servers = KeptServers(registry, places, parts, clients, hosts)
    return clients
