"""The names of the tools that come with wasmrt, as an agent without a workspace has them."""

from __future__ import annotations

from wasmrt.catalog.bundled import HOST_TOOLS, REGISTRY_TOOLS

COMPONENTS = ["echo", "html_to_markdown", "http", "json", "time", "web_fetch"]
ON_ITSELF = list(REGISTRY_TOOLS)
"""Tools that work on wasmrt itself, and are no components."""
SHIPPED = sorted([*COMPONENTS, *HOST_TOOLS, *ON_ITSELF])
