"""Bounds on the work of a schema for given params, so that none is begun that a guest's schema could make endless.

Every part of a reference-free schema meets every value at most once, so parts times values bounds a check. Collecting
errors is dearer: each branch of a choice keeps its own.
"""

from __future__ import annotations

import json
from typing import Any

from wasmrt.schema._document import subschemas

MAX_CHECK = 200_000_000
"""Some seconds at the few nanoseconds a step takes."""
MAX_COERCE = 1_000_000
"""About a second in Python."""
MAX_ERRORS = 50_000
LIGHT_SCHEMA = 100
"""A schema up to this weight needs no counting: the cap on params' bytes bounds the check."""
_MAX_VALUES = 4_000_000
_LIGHT_BYTES = 16_384
_HEAVY = ("$ref", "attern", "$dynamic", 'Of"')


def weight(schema: Any) -> int:
    """Return the steps that one value can cost."""
    if not isinstance(schema, dict):
        return 1
    own = 1 + sum(len(schema[key]) for key in ("enum", "required") if isinstance(schema.get(key), list))
    return own + sum(weight(inner) for _, inner in subschemas(schema))


def is_light(schema: Any) -> bool:
    """Tell whether a schema costs next to nothing to compile and check by: small, without patterns or references."""
    text = json.dumps(schema, default=str)
    return len(text) <= _LIGHT_BYTES and not any(word in text for word in _HEAVY) and weight(schema) <= LIGHT_SCHEMA


def has_choice(schema: Any) -> bool:
    """Return whether a failure can carry the failures of branches."""
    if not isinstance(schema, dict):
        return False
    return "anyOf" in schema or "oneOf" in schema or any(has_choice(inner) for _, inner in subschemas(schema))


def values_in(data: Any) -> int:
    """Return how many values JSON data holds, itself included; counting ends at a bound."""
    count, waiting = 1, [data]
    while waiting and count < _MAX_VALUES:
        value = waiting.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        count += len(inner)
        waiting += [item for item in inner if isinstance(item, (dict, list))]
    return count
