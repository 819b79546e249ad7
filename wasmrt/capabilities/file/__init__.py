"""The capability file: its sections, what is wrong with one, and its one written form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt._lazy import lazy

if TYPE_CHECKING:
    from wasmrt.capabilities.file._format import (
        as_tree,
        format_file,
    )
    from wasmrt.capabilities.file._model import (
        CapabilityFile,
    )
    from wasmrt.capabilities.file._parse import (
        parse,
    )
    from wasmrt.capabilities.file._sections import (
        capability_schema,
    )

_LATER = {
    "_format": (
        "as_tree",
        "format_file",
    ),
    "_model": ("CapabilityFile",),
    "_parse": ("parse",),
    "_sections": ("capability_schema",),
}

__all__ = [
    "CapabilityFile",
    "as_tree",
    "capability_schema",
    "format_file",
    "parse",
]

__getattr__ = lazy(__name__, _LATER, globals())
