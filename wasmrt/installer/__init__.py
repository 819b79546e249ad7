"""From a source to the catalog: validate the bytes, read the sidecar, propose, store with a grant.

It never decides what a tool may do, and compiles nothing itself: the caller hands in how.
"""

from typing import TYPE_CHECKING

from wasmrt._lazy import lazy

if TYPE_CHECKING:
    from wasmrt.installer._granted import granted_to, request_of
    from wasmrt.installer._install import Installer, Prepare, Proposal, Reading
    from wasmrt.installer._sources import (
        SIDECAR_SUFFIX,
        Fetched,
        FileSource,
        Source,
        read_capability_file,
        read_file,
    )
    from wasmrt.installer._validator import ANY_WORLD, ValidationResult, WasmValidator

_HOMES = {
    "_granted": ("granted_to", "request_of"),
    "_install": ("Installer", "Prepare", "Proposal", "Reading"),
    "_sources": ("SIDECAR_SUFFIX", "Fetched", "FileSource", "Source", "read_capability_file", "read_file"),
    "_validator": ("ANY_WORLD", "ValidationResult", "WasmValidator"),
}

__getattr__ = lazy(__name__, _HOMES, globals())

__all__ = [
    "ANY_WORLD",
    "SIDECAR_SUFFIX",
    "Fetched",
    "FileSource",
    "Installer",
    "Prepare",
    "Proposal",
    "Reading",
    "Source",
    "ValidationResult",
    "WasmValidator",
    "granted_to",
    "read_capability_file",
    "read_file",
    "request_of",
]
