"""Validate params against a tool's JSON Schema, with errors that a model can act on.

Schemas are untrusted: a guest's schema cannot cause network access, file access or unbounded work. `schema.wit`
converts between JSON and WIT, and `schema.providers` renders tools for model providers.
"""

from __future__ import annotations

from wasmrt.sandbox.schema._validator import Validator, coerce, schema_gaps, schema_problem, without_unusable_patterns
from wasmrt.sandbox.schema._work import is_light, size_of

__all__ = [
    "Validator", "coerce", "is_light", "schema_gaps", "schema_problem", "size_of", "without_unusable_patterns",
]  # fmt: skip
