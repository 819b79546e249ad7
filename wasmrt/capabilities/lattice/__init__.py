"""The common part of two sets of capabilities, and the part that one tool of a component has."""

from __future__ import annotations

from wasmrt.capabilities.lattice._amend import (
    Amendment,
    add_to_grant,
    amendment_of,
    asks_for,
    asks_for_all,
    read_endpoint,
    revoke_from_grant,
)
from wasmrt.capabilities.lattice._merge import for_tool, merge, widest, within_write_paths

__all__ = [
    "Amendment",
    "add_to_grant",
    "amendment_of",
    "asks_for",
    "asks_for_all",
    "for_tool",
    "merge",
    "read_endpoint",
    "revoke_from_grant",
    "widest",
    "within_write_paths",
]
