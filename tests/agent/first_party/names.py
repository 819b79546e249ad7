"""The names of the bundled tools that an agent without a workspace has."""

from __future__ import annotations

from wasmrt.catalog.bundled import HOST_TOOLS, REGISTRY_TOOLS

COMPONENTS = ["echo", "html_to_markdown", "http", "json", "time", "web_fetch"]
ON_ITSELF = list(REGISTRY_TOOLS)
"""Tools that run in the host, not as components."""
SHIPPED = sorted([*COMPONENTS, *HOST_TOOLS, *ON_ITSELF])

SERVED = [name for name in SHIPPED if name not in REGISTRY_TOOLS]
"""What `wasmrt serve` offers by default."""
