"""Bulk calls on the machines of a Ray cluster. Needs the extra `wasmrt[ray]`."""

from __future__ import annotations

from wasmrt.interop.ray._actor import RayTool
from wasmrt.interop.ray._pool import RayPool

__all__ = ["RayPool", "RayTool"]
