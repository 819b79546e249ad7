"""The automation set: tools for the desktop of the person in front of this machine, off until an operator says so."""

from __future__ import annotations

from wasmrt.agent.builtin.desktop._tools import desktop_problem, desktop_tool, desktop_tools

__all__ = ["desktop_problem", "desktop_tool", "desktop_tools"]
