"""The configured servers: read and change them, and offer their tools to a registry and its management tools."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from wasmrt.agent.builtin.host_tool import Plan
from wasmrt.agent.config import read_config_file
from wasmrt.agent.registry import ToolRegistry
from wasmrt.core.errors import ConfigurationError, NotAuthorizedError, SecretError, WasmrtError
from wasmrt.core.places import Places, find_places
from wasmrt.egress.gateway import decide_download
from wasmrt.interop.mcp.client._client import ClientParts, McpClient
from wasmrt.interop.mcp.client._errors import NO_STORE_HINT
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
from wasmrt.interop.mcp.client._login import KeptLogin
from wasmrt.interop.mcp.client._offer import add_servers, default_parts, offer_tools
from wasmrt.interop.mcp.client._program import consent_lines, find_program
from wasmrt.interop.mcp.client._settings import McpServerConfig
from wasmrt.interop.mcp.packages import keep_only
from wasmrt.runtime.context import ToolContext


def load_servers(places: Places) -> tuple[dict[str, McpServerConfig], dict[str, Trusted]]:
    """Return the servers, and the approved command and definitions of each."""
    return read_servers(places.mcp_servers), read_trusted(places.mcp_trust)


def find_server(places: Places, name: str) -> tuple[McpServerConfig, Trusted]:
    """Return a server, and its approved command and definitions.

    Raises:
        NotInstalledError: there is no server of this name.
    """
    servers, known = load_servers(places)
    return server_named(servers, name), known.get(name, NOTHING)


def keep_server(places: Places, server: McpServerConfig, trusted: Trusted) -> None:
    """Store a server and its approval, replacing those with the same name."""
    servers, known = load_servers(places)
    # Write the approval first: a server without one is not used, and an approval without a server has no effect.
    write_trusted(places.mcp_trust, known | {server.name: trusted})
    write_servers(places.mcp_servers, (servers | {server.name: server}).values())
    keep_only(places, server.name, server.command)


def forget_server(places: Places, name: str) -> None:
    """Remove a server, its approval and its installed package."""
    servers, known = load_servers(places)
    write_servers(places.mcp_servers, [server for server in servers.values() if server.name != name])
    write_trusted(places.mcp_trust, {other: entry for other, entry in known.items() if other != name})
    keep_only(places, name, ())


def wants_login(server: McpServerConfig, error: WasmrtError) -> bool:
    """Return whether to store a server without its tools until the user logs in."""
    return bool(server.url) and server.requires_auth and not error.retryable


class KeptServers:
    """The servers of an installation, for `wasmrt.agent.builtin.extensions`."""

    def __init__(
        self, registry: ToolRegistry, places: Places, parts: ClientParts, clients: dict[str, McpClient],
        hosts: tuple[str, ...],
    ) -> None:  # fmt: skip
        self._registry = registry
        self._places = places
        self._parts = parts
        self._clients = clients
        self._active: dict[str, tuple[McpServerConfig, Trusted]] = {}
        """The servers at the time their tools were offered."""
        self._hosts = hosts

    def rows(self) -> list[dict[str, Any]]:
        """Return a table row for each server."""
        servers, known = load_servers(self._places)
        return [_make_row(server, known.get(server.name, NOTHING)) for server in servers.values()]

    def has(self, name: str) -> bool:
        """Return whether a server of this name is configured."""
        return name in load_servers(self._places)[0]

    def install(self, name: str, url: str | None) -> Plan:
        """Plan the approval of a configured server, or of a new one with a URL.

        Raises:
            NotInstalledError: no server of this name is configured, and no URL is given.
            ConfigurationError: the name is taken, or the server cannot be used.
        """
        servers, known = load_servers(self._places)
        if url is not None and name in servers:
            raise ConfigurationError(
                f"an MCP server {name} already exists", code="name-taken", hint="choose another name"
            )
        if url is not None and decide_download(url, self._hosts, "extensions") is not None:
            raise ConfigurationError("the operator has not allowed the host of this address")
        server = server_named(servers, name) if url is None else McpServerConfig(name=name, url=url)
        agreed = known.get(name, NOTHING)
        if agreed.tools:
            # SECURITY: changed definitions are reviewed one by one, which a single question does not allow.
            raise ConfigurationError(
                f"tools of the MCP server {name} are already approved", code="installed",
                hint=f"tool_activate offers them; to review changes: wasmrt mcp trust {name}",
            )  # fmt: skip
        program = None if server.url else find_program(server)
        shown = [f"use the MCP server {name}, {server.trust}, with its current tools:"]
        shown += [f"  {line}" for line in consent_lines(server, program)]
        # SECURITY: an approval offers only a server that no user decided about.
        offered = replace(agreed, for_agents=agreed.for_agents if name in known else True)
        agents = "its tools would be offered to" if offered.for_agents else "its tools stay hidden from"
        shown += [f"{agents} the agents of this installation", f"digest {server.consent_digest}"]
        return Plan("\n".join(shown), partial(self._approve, server, offered))

    def steps(self, name: str, user: str) -> list[str]:
        """Return the commands that make a server usable for a user."""
        server, entry = find_server(self._places, name)
        if not entry.covers(server):
            return [f"wasmrt mcp trust {name}"]
        of, store = "" if user == "local" else f" --user {user}", self._parts.secrets
        wanted = [*server.secret_env.values(), *([server.bearer] if server.bearer else [])]
        steps = [
            NO_STORE_HINT if store is None else store.hint_to_set(user, secret).removeprefix("run: ")
            for secret in dict.fromkeys(wanted)
            if not self._is_set(user, secret)
        ]
        # A server whose tools are known without a login needs none.
        wants = server.oauth is not None or (server.requires_auth and not entry.tools)
        if wants and not self._is_logged_in(user, server):
            steps.append(f"wasmrt mcp auth {name}{of}")
        return steps

    def activate(self, name: str) -> None:
        """Offer the approved tools of a server instead of the current ones.

        Raises:
            NotAuthorizedError: its current configuration is not approved.
        """
        server, entry = find_server(self._places, name)
        if not server.enabled or not entry.covers(server):
            raise NotAuthorizedError(
                f"the current MCP server {name} has not been approved", code="mcp-consent",
                hint=f"review and approve it: wasmrt mcp trust {name}",
            )  # fmt: skip
        if self._active.get(name) == (server, entry) and self._registry.group(f"mcp:{name}"):
            return  # the server is in use by other calls
        self._drop(name)
        client = self._clients[name] = McpClient(server, entry, self._parts)
        self._active[name] = server, entry
        self._registry.on_close(client.close)
        self._registry.problems.pop(name, None)
        offer_tools(self._registry, client)

    def remove(self, name: str) -> Plan:
        """Plan the removal of a server and its approval.

        Raises:
            NotInstalledError: there is no server of this name.
        """
        server, _ = find_server(self._places, name)
        where = server.url or repr(server.command[0])
        shown = f"remove the MCP server {name}, {where}, and the login there; its other secrets stay"
        return Plan(f"{shown}\ndigest {server.consent_digest}", partial(self._remove, server))

    def _remove(self, server: McpServerConfig, context: ToolContext) -> dict[str, Any]:
        if self._parts.secrets is not None:
            KeptLogin(self._parts.secrets, context.user, server).remove()
        forget_server(self._places, server.name)
        self._drop(server.name)
        return {"removed": server.name}

    def _approve(self, server: McpServerConfig, before: Trusted, context: ToolContext) -> dict[str, Any]:
        entry = trust_server(server, (), before)
        client = McpClient(server, entry, self._parts)
        try:
            facts = client.look(user=context.user)
        except WasmrtError as error:
            if not wants_login(server, error):
                raise
            keep_server(self._places, server, entry)
            return {"installed": server.name, "tools": [], "problem": error.message, "next": "tool_auth"}
        finally:
            client.close()
        keep_server(self._places, server, trust_server(server, facts.tools, before))
        return {"installed": server.name, "tools": [tool.name for tool in facts.tools], "next": "tool_activate"}

    def _drop(self, name: str) -> None:
        for tool in self._registry.group(f"mcp:{name}"):
            self._registry.remove(tool)
            self._registry.tool_changed(tool)
        if (client := self._clients.pop(name, None)) is not None:
            client.close()

    def _is_set(self, user: str, secret: str) -> bool:
        try:
            return self._parts.secrets is not None and bool(self._parts.secrets.get(user, secret))
        except SecretError:
            return False

    def _is_logged_in(self, user: str, server: McpServerConfig) -> bool:
        secrets = self._parts.secrets
        return secrets is not None and bool(KeptLogin(secrets, user, server).get("access_token"))


def _make_row(server: McpServerConfig, entry: Trusted) -> dict[str, Any]:
    state = "installed" if entry.covers(server) else "not approved"
    return {
        "name": server.name, "kind": "mcp", "description": server.description, "trust": str(server.trust),
        "tools": len(entry.tools), "digest": server.consent_digest,
        "state": state if server.enabled else "disabled",
    }  # fmt: skip


def add_configured_servers(registry: ToolRegistry, *, sampling: Any = None) -> dict[str, McpClient]:
    """Offer the tools of the servers in `mcp-servers.json`; return the clients by name. The registry closes them.

    Elicitation requests of a server go to the registry's approver. `sampling` is the SDK's `SamplingFnT`; without it,
    sampling is not offered to servers.

    Raises:
        ConfigFileError: a file is invalid; all mistakes are reported together.

    Examples:
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
