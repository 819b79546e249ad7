"""Convert between JSON and WIT: exported functions as tools, JSON Schemas of types, and values in both directions."""

from __future__ import annotations

from wasmrt.sandbox.schema.wit._exports import exported_functions
from wasmrt.sandbox.schema.wit._forms import NON_FINITE, explain_unsupported, function_schema, type_schema
from wasmrt.sandbox.schema.wit._read import to_values
from wasmrt.sandbox.schema.wit._write import failure_text, split_result, to_json

__all__ = [
    "NON_FINITE",
    "explain_unsupported",
    "exported_functions",
    "failure_text",
    "function_schema",
    "split_result",
    "to_json",
    "to_values",
    "type_schema",
]
