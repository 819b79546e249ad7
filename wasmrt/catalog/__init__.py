"""The catalog of installed tools. This package neither compiles nor runs tools, and trusts none of them.

The names exported here suffice to list tools. `granted` reads the capabilities of a stored version, and `find` looks a
tool up by name. `installer` plans and stores, `sources` reads bytes, and `validator` checks them before the compiler
reads them.
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
