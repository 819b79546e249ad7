"""Validation of params against a tool's JSON Schema, with messages that a model can act on.

No schema is trusted: a guest's own never reaches the network, a file or unbounded work. `schema.wit` is between JSON
and WIT, `schema.providers` renders tools for model providers.
"""

from __future__ import annotations

from wasmrt.sandbox.schema._validator import Validator, coerce, schema_gaps, schema_problem
from wasmrt.sandbox.schema._work import is_light

__all__ = ["Validator", "coerce", "is_light", "schema_gaps", "schema_problem"]
