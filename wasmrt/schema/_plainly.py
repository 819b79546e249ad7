"""The schemas that most tools have, judged without the validator, whose import alone takes longer than such a call.

Only a yes counts: what is not certainly sound, or certainly valid, is left to the validator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_KEYWORDS = {"type", "properties", "required", "description", "title", "enum", "items", "additionalProperties"}
_MAX_DEPTH = 8
_MAX_PARTS = 400
_MAX_TEXT = 16 * 1024
"""Together far below what `read_schema` bounds: a schema that is large is for the validator's own bounds."""

Check = Callable[[Any], bool]


def plainly(schema: Any) -> Check | None:
    """The check of a sound schema of plain keywords; None for every other schema.

    The check says True for what is valid, and False for what is not or what it cannot tell.
    """
    return _check(schema, 0) if _is_small(schema) else None


def _is_small(schema: Any) -> bool:
    parts, text, left = 0, 0, [schema]
    while left:
        part = left.pop()
        parts += 1
        if isinstance(part, str):
            text += len(part)
        elif isinstance(part, dict):
            left += (*part, *part.values())
        elif isinstance(part, list):
            left += part
        if text > _MAX_TEXT or parts + len(left) > _MAX_PARTS:
            return False
    return True


def _check(schema: Any, depth: int) -> Check | None:
    if not isinstance(schema, dict) or not schema.keys() <= _KEYWORDS or depth > _MAX_DEPTH:
        return None
    if not all(isinstance(schema.get(name, ""), str) for name in ("description", "title")):
        return None
    if "enum" in schema:
        return _enum(schema)
    match schema.get("type"):
        case "object":
            return _object(schema, depth)
        case "array":
            return _array(schema, depth)
        case "string" | "integer" | "number" | "boolean" | "null" as name:
            return _SIMPLE[name] if not schema.keys() & {"properties", "required", "items"} else None
        case None:
            return _anything if schema.keys() <= {"description", "title"} else None
        case _:
            return None


def _object(schema: dict[str, Any], depth: int) -> Check | None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    open_ended = schema.get("additionalProperties", True)
    if "items" in schema or not isinstance(properties, dict) or not isinstance(open_ended, bool):
        return None
    if not _is_words(required):
        return None
    checks = {name: _check(inner, depth + 1) for name, inner in properties.items()}
    if None in checks.values():
        return None
    wanted = frozenset(required)

    def check(value: Any) -> bool:
        if not isinstance(value, dict) or not wanted <= value.keys():
            return False
        for name, item in value.items():
            known = checks.get(name)
            if known is None:
                if not open_ended:
                    return False
            elif not known(item):
                return False
        return True

    return check


def _array(schema: dict[str, Any], depth: int) -> Check | None:
    if schema.keys() & {"properties", "required", "additionalProperties"}:
        return None
    item = _check(schema.get("items", {}), depth + 1)
    if item is None:
        return None
    return lambda value: isinstance(value, list) and all(map(item, value))


def _enum(schema: dict[str, Any]) -> Check | None:
    words = schema["enum"]
    if not words or not _is_words(words) or schema.get("type", "string") != "string":
        return None
    if schema.keys() - {"type", "enum", "description", "title"}:
        return None
    known = frozenset(words)
    return lambda value: isinstance(value, str) and value in known


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value) and len(set(value)) == len(value)


def _anything(value: Any) -> bool:
    # Whether it is JSON at all is for the validator to say, unless it plainly is.
    return isinstance(value, (str, bool, int, type(None))) or (
        isinstance(value, (list, dict)) and _is_json(value, _MAX_DEPTH)
    )


def _is_json(value: Any, depth: int) -> bool:
    if isinstance(value, list):
        return depth > 0 and all(_is_json(item, depth - 1) for item in value)
    if isinstance(value, dict):
        return depth > 0 and all(isinstance(k, str) and _is_json(item, depth - 1) for k, item in value.items())
    return isinstance(value, (str, bool, int, type(None)))


_SIMPLE: dict[str, Check] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and value == value,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
