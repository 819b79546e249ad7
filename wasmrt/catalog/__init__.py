"""The catalog of installed tools. This package neither compiles nor runs tools, and trusts none of them.

The names exported here suffice to list tools. `granted` reads the capabilities of a stored version, and `find` finds a
tool by name. `sources` reads the bytes of a component, `validator` checks these bytes before they are compiled, and
`installer` plans and stores a new version.
"""

from __future__ import annotations

from wasmrt.catalog._catalog import Catalog
from wasmrt.catalog._model import ComponentInfo, Finding, Kept, Listed, NewVersion, ToolVersion, TypedSource

__all__ = [
    "Catalog",
    "ComponentInfo",
    "Finding",
    "Kept",
    "Listed",
    "NewVersion",
    "ToolVersion",
    "TypedSource",
]
