"""Tools for the user's desktop, which an operator has to enable."""

from __future__ import annotations

from wasmrt.agent.builtin.desktop._announce import announce_request
from wasmrt.agent.builtin.desktop._tools import desktop_problem, desktop_tool, desktop_tools

__all__ = ["announce_request", "desktop_problem", "desktop_tool", "desktop_tools"]
