"""What two sets of capabilities have in common, and what one tool of a component has of them."""

from __future__ import annotations

from wasmrt.capabilities.lattice._merge import for_tool, merge, widest

__all__ = ["for_tool", "merge", "widest"]
