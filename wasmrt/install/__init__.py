"""The catalog of installed tools, and how a tool is found in it. No tool is compiled or run here, and none is trusted.

How one gets into the catalog is in modules that running a tool does not load: `installer` plans and stores, `sources`
fetches bytes and `validator` checks them before the compiler sees them.
"""

from __future__ import annotations

from wasmrt.install._catalog import Catalog
from wasmrt.install._find import FoundTool, bundled_names, find_bundled, find_tool
from wasmrt.install._granted import granted_to, request_of
from wasmrt.install._model import ComponentInfo, Finding, Listed, NewVersion, ToolVersion

__all__ = [
    "Catalog",
    "ComponentInfo",
    "Finding",
    "FoundTool",
    "Listed",
    "NewVersion",
    "ToolVersion",
    "bundled_names",
    "find_bundled",
    "find_tool",
    "granted_to",
    "request_of",
]
