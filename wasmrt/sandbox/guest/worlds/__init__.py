"""The tool worlds: bind their imports to the host's services, and describe and run their exports."""

from __future__ import annotations

from wasmrt.sandbox.guest.worlds._exports import World, detect
from wasmrt.sandbox.guest.worlds._imports import interfaces

__all__ = ["World", "detect", "interfaces"]
