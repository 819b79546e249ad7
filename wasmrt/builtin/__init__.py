"""First-party tools that no sandbox can do the work of: the store that they stand on is the host's."""

from __future__ import annotations

from wasmrt.builtin._memory import memory_tools

__all__ = ["memory_tools"]
