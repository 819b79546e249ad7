"""The common part of two sets of capabilities, and the part that one tool of a component has."""

from __future__ import annotations

from wasmrt.capabilities.lattice._merge import for_tool, merge, widest, within_write_paths

__all__ = ["for_tool", "merge", "widest", "within_write_paths"]
