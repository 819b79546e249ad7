"""The tool worlds: their imports, bound to guarded services, and how their exports are asked and run."""

from __future__ import annotations

from wasmrt.guest.worlds._imports import (
    AGENT_VERSIONS,
    interfaces,
)
from wasmrt.guest.worlds._spec import (
    ToolSpec,
)

__all__ = [
    "AGENT_VERSIONS",
    "ToolSpec",
    "interfaces",
]
