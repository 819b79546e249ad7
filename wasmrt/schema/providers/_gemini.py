"""A cleaned schema as Gemini takes it: the part of OpenAPI 3.0 that its `Schema` has (`FunctionDeclaration`).

A union that has no place there is widened to its first kind; the call itself is checked against the tool's own schema.
"""

from __future__ import annotations

from typing import Any

_KEPT = (
    "title", "description", "format", "minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum", "pattern",
)  # fmt: skip
_FORMATS = ("float", "double", "int32", "int64", "enum", "date-time")


def for_gemini(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a reference-free schema in the words of Gemini's `Schema`."""
    kinds = _kinds(schema)
    named = [kind for kind in kinds if kind != "null"]
    found: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    if found.get("format") not in (None, *_FORMATS):
        del found["format"]
    if "null" in kinds:
        found["nullable"] = True
    branches = [branch for key in ("anyOf", "oneOf") for branch in schema.get(key, ()) if isinstance(branch, dict)]
    if branches:
        own = [for_gemini(branch) for branch in branches if _kinds(branch) != ["null"]]
        if len(own) < len(branches):
            found["nullable"] = True
        return found | (own[0] if len(own) == 1 else {"anyOf": own})
    kind = named[0] if named else "string"
    found["type"] = kind.upper()
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and kind == "string":  # enums of other types are not in Gemini's Schema
        found["enum"] = [value for value in values if isinstance(value, str)]
        found["format"] = "enum"
    if kind == "object":
        properties = {name: for_gemini(part) for name, part in _parts(schema).items()}
        found["properties"] = properties
        if required := [name for name in schema.get("required", ()) if name in properties]:
            found["required"] = required
    if kind == "array":
        items = schema.get("items")
        found["items"] = for_gemini(items) if isinstance(items, dict) else {"type": "STRING"}
    return found


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return [kinds]
    if isinstance(kinds, list):
        return [kind for kind in kinds if isinstance(kind, str)]
    if "properties" in schema:
        return ["object"]
    return ["array"] if "items" in schema else []


def _parts(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    properties = schema.get("properties", {})
    return {name: part if isinstance(part, dict) else {"type": "string"} for name, part in properties.items()}
