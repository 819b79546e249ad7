"""The interface of MCP servers for the agent's tools. `wasmrt.interop.mcp.client` implements it."""

from __future__ import annotations

from typing import Any, Protocol

from wasmrt.agent.builtin.host_tool import Plan


class Servers(Protocol):
    """The MCP servers configured on this machine."""

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each server: name, kind, state, trust, description."""

    def has(self, name: str) -> bool:
        """Return whether a server of this name is configured."""

    def install(self, name: str, url: str | None) -> Plan:
        """Plan the approval of a configured server, or the addition of a server at a URL."""

    def steps(self, name: str, user: str) -> list[str]:
        """Return the commands that make a server usable for a user; empty if it is usable."""

    def activate(self, name: str) -> None:
        """Register the approved tools of a server."""

    def remove(self, name: str) -> Plan:
        """Plan the removal of a server and its approval."""
