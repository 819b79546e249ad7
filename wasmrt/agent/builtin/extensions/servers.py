"""The interface through which the agent's tools manage MCP servers. `wasmrt.interop.mcp.client` implements it."""

from __future__ import annotations

from typing import Any, Protocol

from wasmrt.agent.builtin.host_tool import Plan


class Servers(Protocol):
    """The MCP servers configured on this machine."""

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each server, with the keys name, kind, state, trust and description."""

    def has(self, name: str) -> bool:
        """Return whether a server of this name is configured."""

    def install(self, name: str, url: str | None) -> Plan:
        """Plan to approve a configured server; with a URL, plan to add the server at this URL."""

    def steps(self, name: str, user: str) -> list[str]:
        """Return the commands that make a server usable for a user. The list is empty if the server is usable."""

    def activate(self, name: str) -> None:
        """Register the approved tools of a server."""

    def remove(self, name: str) -> Plan:
        """Plan to remove a server and the approval of its tools."""
