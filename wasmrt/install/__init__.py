"""From a source to a stored version: validate the bytes, read the sidecar, propose, store with a grant.

It never decides what a tool may do, and compiles nothing itself: the caller hands in how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt._lazy import lazy

if TYPE_CHECKING:
    from wasmrt.install._catalog import (
        Catalog,
    )
    from wasmrt.install._components import (
        digest_of,
    )
    from wasmrt.install._granted import (
        granted_to,
        request_of,
    )
    from wasmrt.install._install import (
        Installer,
        Prepare,
        Proposal,
        Reading,
    )
    from wasmrt.install._model import (
        Draft,
        Finding,
        Listed,
        ToolVersion,
    )
    from wasmrt.install._sources import (
        SIDECAR_SUFFIX,
        Fetched,
        FileSource,
        Source,
        read_capability_file,
        read_source,
    )
    from wasmrt.install._validator import (
        ValidationResult,
        WasmValidator,
    )

_LATER = {
    "_catalog": ("Catalog",),
    "_components": ("digest_of",),
    "_granted": (
        "granted_to",
        "request_of",
    ),
    "_install": (
        "Installer",
        "Prepare",
        "Proposal",
        "Reading",
    ),
    "_model": (
        "Draft",
        "Finding",
        "Listed",
        "ToolVersion",
    ),
    "_sources": (
        "Fetched",
        "FileSource",
        "SIDECAR_SUFFIX",
        "Source",
        "read_capability_file",
        "read_source",
    ),
    "_validator": (
        "ValidationResult",
        "WasmValidator",
    ),
}

__all__ = [
    "SIDECAR_SUFFIX",
    "Catalog",
    "Draft",
    "Fetched",
    "FileSource",
    "Finding",
    "Installer",
    "Listed",
    "Prepare",
    "Proposal",
    "Reading",
    "Source",
    "ToolVersion",
    "ValidationResult",
    "WasmValidator",
    "digest_of",
    "granted_to",
    "read_capability_file",
    "read_source",
    "request_of",
]

__getattr__ = lazy(__name__, _LATER, globals())
