"""The part of MCP servers that the agent's tools need. `wasmrt.interop.mcp.client` implements it."""

from __future__ import annotations

from typing import Any, Protocol

from wasmrt.agent.builtin.host_tool import Plan


class Servers(Protocol):
    """The servers that are configured on this machine."""

    def rows(self) -> list[dict[str, Any]]:
        """Return each server in a row: name, kind, state, trust, description."""

    def has(self, name: str) -> bool:
        """Tell whether a server of this name is configured."""

    def install(self, name: str, url: str | None) -> Plan:
        """Plan to agree to a server that is configured, or to add one that is reached at a URL."""

    def steps(self, name: str, user: str) -> list[str]:
        """Return the commands with which a person makes it usable for a user; none where it is."""

    def activate(self, name: str) -> None:
        """Offer the tools of a server as somebody agreed to them."""

    def remove(self, name: str) -> Plan:
        """Plan to forget a server, and what was agreed to of it."""
