"""Estimate the work of checking params, so that a guest's schema cannot cause unbounded work.

Every part of a reference-free schema is applied to every value at most once, so a check takes at most parts times
values steps, plus pattern states times characters. Collecting errors costs more: each error stores the failed value,
and each branch of a choice has its own errors.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from wasmrt.sandbox.schema._document import subschemas

MAX_CHECK = 200_000_000
"""A few seconds: a step takes a few nanoseconds."""
MAX_COERCE = 1_000_000
"""About a second in Python."""
MAX_ERRORS = 50_000
MAX_WEIGHT = 1_000_000
"""Maximum number of steps for one value; a schema over it is too heavy for any params."""
LIGHT_SCHEMA = 100
"""For a schema up to this weight, with few patterns, the limit on the size of params is a sufficient bound."""
LIGHT_TEXT = 25
_MAX_VALUES = 4_000_000
_LIGHT_BYTES = 16_384
_HEAVY = ("$ref", "attern", "$dynamic", 'Of"')
_MAX_ERROR_CHARACTERS = 16_000_000
"""Maximum number of characters in the strings that all errors of a check store."""
_COERCED_CHARACTERS = 100
"""Characters that are parsed as JSON in the time of one step in Python."""
_UNIQUE_STEPS = 30
_TEXT_STEPS = {"contentEncoding": 5, "contentMediaType": 30}
_FEW_STATES = 64
"""Up to this many states, a character of the text costs one step; with more states, one step for each state."""
_REPEAT = re.compile(r"\{(\d{1,9})?(,)?(\d{1,9})?\}")


class Weight(NamedTuple):
    """The cost of a check in steps: per value, and per character of strings and field names."""

    value: int
    character: int


class Size(NamedTuple):
    """The amount of JSON data."""

    values: int
    characters: int


def weight(schema: Any) -> Weight:
    """Return the maximum number of steps for one value and for one character."""
    if not isinstance(schema, dict):
        return Weight(1, 0)
    value = 1 + sum(len(schema[key]) for key in ("enum", "required") if isinstance(schema.get(key), list))
    value += _UNIQUE_STEPS * (schema.get("uniqueItems") is True)
    character = sum(steps for key, steps in _TEXT_STEPS.items() if key in schema)
    listed = schema.get("patternProperties")
    for pattern in (schema.get("pattern"), *(listed if isinstance(listed, dict) else ())):
        character += _pattern_steps(pattern) if isinstance(pattern, str) else 0
    for _, inner in subschemas(schema):
        below = weight(inner)
        value, character = value + below.value, character + below.character
    return Weight(value, character)


def check_steps(cost: Weight, size: Size) -> int:
    """Return the maximum number of steps of a check."""
    return cost.value * size.values + cost.character * size.characters


def coerce_steps(cost: Weight, size: Size) -> int:
    """Return the maximum number of steps of a coercion."""
    return cost.value * (size.values + size.characters // _COERCED_CHARACTERS)


def can_collect_errors(cost: Weight, size: Size) -> bool:
    """Return whether all errors of a check can be collected within bounds."""
    return cost.value * size.values <= MAX_ERRORS and cost.value * size.characters <= _MAX_ERROR_CHARACTERS


def is_light(schema: Any) -> bool:
    """Return whether a schema is cheap to compile and check: small, without patterns, references and choices."""
    text = json.dumps(schema, default=str)
    return (
        len(text) <= _LIGHT_BYTES and not any(word in text for word in _HEAVY) and weight(schema).value <= LIGHT_SCHEMA
    )


def has_choice(schema: Any) -> bool:
    """Return whether errors of a schema can contain the errors of branches."""
    if not isinstance(schema, dict):
        return False
    return "anyOf" in schema or "oneOf" in schema or any(has_choice(inner) for _, inner in subschemas(schema))


def size_of(data: Any) -> Size:
    """Return the number of values and characters in JSON data; counting stops at a limit."""
    values, characters, waiting = 1, 0, [data]
    while waiting and values < _MAX_VALUES:
        value = waiting.pop()
        if isinstance(value, str):
            characters += len(value)
            continue
        if isinstance(value, dict):
            characters += sum(len(name) for name in value if isinstance(name, str))
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        values += len(inner)
        waiting += [item for item in inner if isinstance(item, (dict, list, str))]
    return Size(values, characters)


def _pattern_steps(pattern: str) -> int:
    """Return the steps of a pattern for each character, estimated from the states that its repetitions produce."""
    totals, last, at = [0], 0, 0
    while at < len(pattern):
        char = pattern[at]
        repeat = _REPEAT.match(pattern, at) if char == "{" else None
        at = _after(pattern, at) if repeat is None else repeat.end()
        if repeat is not None:
            times = max(int(group) for group in (repeat[1], repeat[3], "1") if group)
            totals[-1] += last * (times - 1)
            last *= times
        elif char == "(":
            totals.append(0)
        elif char == ")" and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
        else:
            last = 1
            totals[-1] += 1
    states = sum(totals)
    return 1 if states <= _FEW_STATES else min(states, MAX_CHECK)


def _after(pattern: str, at: int) -> int:
    """Return the end of the character, escape or class that starts at `at`."""
    if pattern[at] == "\\":
        return at + 2
    if pattern[at] != "[":
        return at + 1
    end = pattern.find("]", at + 2)
    return len(pattern) if end < 0 else end + 1
