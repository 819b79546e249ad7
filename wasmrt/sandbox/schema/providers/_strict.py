"""Convert a schema to OpenAI's strict mode, if possible.

Rules of strict mode (structured outputs, "Supported schemas"): every object is closed, every property is required,
choices are anyOf below the top level, and only the listed keywords are used. The limits are 5,000 properties, 10
levels, 1,000 enum values, 120,000 characters of names, enum values and consts, and 15,000 characters in an enum of over
250 values. A schema has no strict form if that form would forbid a call that the tool accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from wasmrt.sandbox.schema._document import map_subschemas, subschemas

MAX_PROPERTIES = 5_000
MAX_LEVELS = 10
MAX_ENUM_VALUES = 1_000
MAX_NAME_CHARS = 120_000
MAX_LONG_ENUM_VALUES, MAX_LONG_ENUM_CHARS = 250, 15_000
KEYWORDS = frozenset({
    "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "format",
    "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern", "properties", "required", "title",
    "type",
})  # fmt: skip
FORMATS = frozenset({"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"})
_LOOKS_AROUND = re.compile(r"\(\?(?!:)|\\[1-9k]")
"""Groups other than `(?:`, and backreferences: the grammars for constrained output support neither."""
_NULL = {"type": "null"}


def strict_problem(schema: dict[str, Any]) -> str | None:
    """Return the reason why a rendered schema has no strict form, or None if it has one."""
    parts = list(_walk(schema, 1))
    if max(level for _, level in parts) > MAX_LEVELS:
        return f"it is nested over {MAX_LEVELS} levels deep"
    return _find_size_problem([part for part, _ in parts]) or next(
        filter(None, (_find_problem(part) for part, _ in parts)), None
    )


def _find_size_problem(parts: list[dict[str, Any]]) -> str | None:
    names = [name for part in parts for name in part.get("properties", {})]
    enums = [[str(option) for option in part.get("enum", ())] for part in parts]
    values = [value for enum in enums for value in enum]
    if len(names) > MAX_PROPERTIES or len(values) > MAX_ENUM_VALUES:
        return "it has too many properties or enum values"
    consts = [str(part["const"]) for part in parts if "const" in part]
    if sum(map(len, names + values + consts)) > MAX_NAME_CHARS or any(map(_is_too_long, enums)):
        return "the names of its properties and enum values are too long in total"
    return None


def _is_too_long(enum: list[str]) -> bool:
    return len(enum) > MAX_LONG_ENUM_VALUES and sum(map(len, enum)) > MAX_LONG_ENUM_CHARS


def tighten(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the strict form of a schema for which `strict_problem` returned None."""
    kept = {key: value for key, value in schema.items() if key in KEYWORDS}
    if kept.get("format") not in FORMATS:
        kept.pop("format", None)
    if _LOOKS_AROUND.search(kept.get("pattern", "")):
        del kept["pattern"]
    closed = kept.pop("additionalProperties", None)
    tight = map_subschemas(kept, tighten)
    if tight.get("type") != "object":
        return tight
    required = set(tight.get("required", ()))
    tight["properties"] = {
        name: kind if name in required else _make_nullable(kind) for name, kind in tight.get("properties", {}).items()
    }
    assert closed in (None, False)
    return tight | {"required": list(tight["properties"]), "additionalProperties": False}


def _walk(schema: dict[str, Any], level: int) -> Iterator[tuple[dict[str, Any], int]]:
    yield schema, level
    for place, inner in subschemas(schema):
        if isinstance(inner, dict):
            yield from _walk(inner, level + (place[0] != "anyOf"))


def _find_problem(part: dict[str, Any]) -> str | None:
    if not part.keys() & {"type", "anyOf", "enum", "const"}:
        return "part of it accepts any value"
    lost = part.keys() & {"allOf", "not", "if", "patternProperties", "dependentSchemas", "dependentRequired"}
    if lost:
        return f"it uses {min(lost)}"
    if part.get("type") == "object":
        # Ordinary calls have no unlisted fields, except for maps, which consist of them.
        closed = part.get("additionalProperties", False if part.get("properties") else None)
        return None if closed is False else "part of it is an object that accepts any field"
    return None


def _make_nullable(kind: dict[str, Any]) -> dict[str, Any]:
    if kind.get("type") == "null" or _NULL in kind.get("anyOf", ()):
        return kind
    if kind.keys() <= {"anyOf", "description", "title"}:
        return kind | {"anyOf": [*kind["anyOf"], _NULL]}
    outside = {key: value for key, value in kind.items() if key in ("title", "description")}
    return {**outside, "anyOf": [{key: value for key, value in kind.items() if key not in outside}, _NULL]}
