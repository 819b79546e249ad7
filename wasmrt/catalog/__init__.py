"""What is installed, and where: components by digest, versions by name, their requests and grants.

It stores and checks; what a sidecar means and whether it is granted is decided by the rooms above. The catalog
itself loads when first used: a command that finds no index does without SQLite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt._lazy import lazy
from wasmrt.catalog._places import HOME_VARIABLE, Places, find_places

if TYPE_CHECKING:
    from wasmrt.catalog._catalog import Catalog
    from wasmrt.catalog._components import digest_of
    from wasmrt.catalog._model import MAX_NAME_LENGTH, Draft, Finding, Listed, ToolVersion, read_name

_LATER = {
    "_catalog": ("Catalog",),
    "_components": ("digest_of",),
    "_model": ("MAX_NAME_LENGTH", "Draft", "Finding", "Listed", "ToolVersion", "read_name"),
}

__all__ = [
    "HOME_VARIABLE",
    "MAX_NAME_LENGTH",
    "Catalog",
    "Draft",
    "Finding",
    "Listed",
    "Places",
    "ToolVersion",
    "digest_of",
    "find_places",
    "read_name",
]


__getattr__ = lazy(__name__, _LATER, globals())
