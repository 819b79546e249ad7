"""The sections of a capability file: the keys each may have, one declaration for the reader and the JSON Schema."""

from __future__ import annotations

from wasmrt.capabilities.sections._capabilities import capability_schema
from wasmrt.capabilities.sections._descriptive import SECTIONS
from wasmrt.capabilities.sections._json import child
from wasmrt.capabilities.sections._read import HTTP_NUMBERS, Sections, read_sections

__all__ = ["HTTP_NUMBERS", "SECTIONS", "Sections", "capability_schema", "child", "read_sections"]
