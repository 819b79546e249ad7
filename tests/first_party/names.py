"""The names of the tools that come with wasmrt, as an agent without a workspace has them."""

from __future__ import annotations

from wasmrt.install.bundled import HOST_TOOLS

COMPONENTS = ["echo", "html_to_markdown", "http", "json", "time", "web_fetch"]
ON_ITSELF = [
    *("skill_install", "skill_list", "skill_read", "skill_remove", "skill_search"),
    *("tool_activate", "tool_auth", "tool_install", "tool_list", "tool_remove", "tool_search"),
]
"""Tools that work on wasmrt itself, and are no components."""
SHIPPED = sorted([*COMPONENTS, *HOST_TOOLS, *ON_ITSELF])
