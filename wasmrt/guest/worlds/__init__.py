"""The tool worlds: their imports, bound to the host's services, and how their exports are asked and run."""

from __future__ import annotations

from wasmrt.guest.worlds._detect import World, detect
from wasmrt.guest.worlds._imports import AGENT_VERSIONS, interfaces

__all__ = ["AGENT_VERSIONS", "World", "detect", "interfaces"]
