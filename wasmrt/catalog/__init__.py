"""The catalog of installed tools. No tool is compiled or run here, and none is trusted.

The face is what a list of tools needs. `granted` reads the capabilities of a stored version and `find` looks a tool
up by its name; `installer` plans and stores, `sources` fetches bytes and `validator` checks them before the compiler
sees them.
"""

from __future__ import annotations

from wasmrt.catalog._catalog import Catalog
from wasmrt.catalog._model import ComponentInfo, Finding, Kept, Listed, NewVersion, ToolVersion

__all__ = [
    "Catalog",
    "ComponentInfo",
    "Finding",
    "Kept",
    "Listed",
    "NewVersion",
    "ToolVersion",
]
