"""Declare the sections of a capability file, for reading them as JSON data and for the JSON Schema."""

from __future__ import annotations

from wasmrt.capabilities.sections._schema import SECTIONS, capability_schema
from wasmrt.capabilities.sections._tree import file_error, nested_path, read_tree

__all__ = ["SECTIONS", "capability_schema", "file_error", "nested_path", "read_tree"]
