"""The tool worlds: their imports, bound to the host's services, and how their exports are asked and run."""

from __future__ import annotations

from wasmrt.sandbox.guest.worlds._detect import detect
from wasmrt.sandbox.guest.worlds._exports import World
from wasmrt.sandbox.guest.worlds._imports import interfaces

__all__ = ["World", "detect", "interfaces"]
