"""Offer the approved tools of servers in a registry, without connecting to any server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wasmrt.agent.approvals import Approvals
from wasmrt.agent.config import OperatorConfig, read_config_file
from wasmrt.agent.registry import ToolRegistry, ToolSource
from wasmrt.core.errors import ConfigurationError, InvalidNameError, WasmrtError
from wasmrt.core.names import fold_name
from wasmrt.core.places import find_places
from wasmrt.interop.mcp.client._client import ClientParts, McpClient
from wasmrt.interop.mcp.client._definition import Definition
from wasmrt.interop.mcp.client._files import NOTHING, Trusted
from wasmrt.interop.mcp.client._loop import LoopThread
from wasmrt.interop.mcp.client._settings import McpServerConfig, Trust
from wasmrt.interop.mcp.client._tool import McpTool, tool_name

_SOURCES = {
    Trust.LOCAL: ToolSource.MCP_LOCAL,
    Trust.VERIFIED: ToolSource.MCP_VERIFIED,
    Trust.COMMUNITY: ToolSource.MCP_COMMUNITY,
}


def default_parts(
    approvals: Approvals | None = None, *, sampling: Any = None, config: OperatorConfig | None = None
) -> ClientParts:
    """Return the parts described by the operator's configuration, which is read unless it is given.

    Raises:
        ConfigFileError: the configuration file is invalid.
        SecretError: the secrets store cannot be opened.
    """
    config = config or read_config_file(find_places().config)
    return ClientParts(
        network=config.network,
        secrets=config.open_secrets(),
        approvals=approvals,
        sampling=sampling,
        loop=LoopThread(),
    )


def refused_tools(server: McpServerConfig, tools: Iterable[Definition]) -> dict[str, str]:
    """Return the names of a server's tools that cannot be offered, with the reasons."""
    listed = list(tools)
    spellings: dict[str, list[str]] = {}
    for tool in listed:
        spellings.setdefault(fold_name(tool_name(server.name, tool.name)), []).append(tool.name)
    refused = {}
    for tool in listed:
        alike = spellings[fold_name(tool_name(server.name, tool.name))]
        if len(alike) > 1:
            # SECURITY: a call by either name could reach the other tool.
            refused[tool.name] = (
                f"its name is too similar to {next((n for n in alike if n != tool.name), 'a duplicate')}"
            )
        elif (problem := tool.problem()) is not None:
            refused[tool.name] = problem
    return refused


def offer_tools(registry: ToolRegistry, client: McpClient) -> list[str]:
    """Register the approved tools of a server; return their names.

    Tools that cannot be offered are in the registry's `problems`, by name.
    """
    server, agreed = client.server, client.trusted.tools
    refused = refused_tools(server, agreed.values())
    for name, reason in refused.items():
        registry.problems[tool_name(server.name, name)] = ConfigurationError(
            reason, code="mcp-tool", hint=f"wasmrt mcp tools {server.name}"
        )
    offered = []
    for definition in agreed.values():
        if definition.name in refused:
            continue
        tool = McpTool(client, definition)
        try:
            registry.register(tool, source=_SOURCES[server.trust], group=f"mcp:{server.name}")
        except (InvalidNameError, ConfigurationError) as error:  # another tool has the name
            registry.problems[tool.name] = error
        else:
            offered.append(tool.name)
    return offered


def add_servers(
    registry: ToolRegistry,
    servers: Mapping[str, McpServerConfig],
    trusted: Mapping[str, Trusted],
    parts: ClientParts,
) -> dict[str, McpClient]:
    """Offer the tools of all enabled servers; return their clients by name. The registry closes them.

    No server is started: a server is connected at the first call of one of its tools.
    """
    clients = {}
    registry.on_close(parts.loop.close)
    for name, server in servers.items():
        if not server.enabled:
            continue
        entry = trusted.get(name, NOTHING)
        if not entry.covers(server):
            what = "address" if server.url else "command"
            registry.problems[name] = ConfigurationError(
                f"the current {what} of this MCP server has not been approved", code="mcp-consent",
                hint=f"review and approve it: wasmrt mcp trust {name}",
            )  # fmt: skip
            continue
        client = clients[name] = McpClient(server, entry, parts)
        registry.on_close(client.close)
        try:
            offer_tools(registry, client)
        except WasmrtError as error:
            registry.problems[name] = error
    return clients
