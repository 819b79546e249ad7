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
    """Return a tool's reference-free schema in the words of Gemini's `Schema`; an empty one where it takes nothing.

    Gemini refuses an object without properties, at the top as anywhere, and any word beside an `anyOf`.
    """
    return _part(schema) if schema.get("properties") else {}


def _part(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = _kinds(schema)
    named = [kind for kind in kinds if kind != "null"]
    found: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    if found.get("format") not in (None, *_FORMATS):
        del found["format"]
    if "null" in kinds:
        found["nullable"] = True
    branches = [branch for key in ("anyOf", "oneOf") for branch in schema.get(key, ()) if isinstance(branch, dict)]
    if branches:
        return _union(found, branches)
    kind = named[0] if named else "string"
    if kind == "object" and not schema.get("properties"):
        return _as_json_text(found)
    found["type"] = kind.upper()
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and kind == "string":  # enums of other types are not in Gemini's Schema
        found["enum"] = [value for value in values if isinstance(value, str)]
        found["format"] = "enum"
    if kind == "object":
        properties = {name: _part(part) for name, part in _properties(schema).items()}
        found["properties"] = properties
        if required := [name for name in schema.get("required", ()) if name in properties]:
            found["required"] = required
    if kind == "array":
        items = schema.get("items")
        found["items"] = _part(items) if isinstance(items, dict) else {"type": "STRING"}
    return found


def _union(found: dict[str, Any], branches: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a choice with nothing beside it: what is said of all of it is said of each."""
    words = {key: found[key] for key in ("title", "description", "nullable") if key in found}
    own = [_part(branch) for branch in branches if _kinds(branch) != ["null"]]
    if len(own) < len(branches):
        words["nullable"] = True
    if not own:
        return words | {"type": "STRING"}
    if len(own) == 1 and "anyOf" not in own[0]:
        return found | words | own[0]
    flat = [each for part in own for each in part.get("anyOf", [part])]
    return {"anyOf": [words | each for each in flat]}


def _as_json_text(found: dict[str, Any]) -> dict[str, Any]:
    """Return a free object as the JSON text of one: a call's text is read back as the object that it is."""
    said = " ".join(filter(None, (found.get("description"), "An object, as JSON text.")))
    kept = {key: found[key] for key in ("title", "nullable") if key in found}
    return kept | {"type": "STRING", "description": said}


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return [kinds]
    if isinstance(kinds, list):
        return [kind for kind in kinds if isinstance(kind, str)]
    if "properties" in schema:
        return ["object"]
    return ["array"] if "items" in schema else []


def _properties(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    properties = schema.get("properties", {})
    return {name: part if isinstance(part, dict) else {"type": "string"} for name, part in properties.items()}
