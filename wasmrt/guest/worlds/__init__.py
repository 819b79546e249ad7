"""The tool worlds: their imports, bound to the host's services, and how their exports are asked and run."""

from __future__ import annotations

from wasmrt.guest.worlds._detect import detect
from wasmrt.guest.worlds._exports import World
from wasmrt.guest.worlds._imports import interfaces

__all__ = ["World", "detect", "interfaces"]
