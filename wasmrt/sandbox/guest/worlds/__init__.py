"""Bind the imports of the tool worlds to the host's services, and describe and run the exports of components."""

from __future__ import annotations

from wasmrt.sandbox.guest.worlds._exports import World, detect
from wasmrt.sandbox.guest.worlds._imports import interfaces

__all__ = ["World", "detect", "interfaces"]
