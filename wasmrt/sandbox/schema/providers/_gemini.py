"""Convert a cleaned schema to Gemini's `Schema` (`FunctionDeclaration`), a subset of OpenAPI 3.0.

A union that `Schema` cannot express becomes its first type. Calls are still checked against the tool's own schema.
"""

from __future__ import annotations

from typing import Any

_KEPT = (
    "title", "description", "format", "minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum", "pattern",
)  # fmt: skip
_FORMATS = ("float", "double", "int32", "int64", "enum", "date-time")


def for_gemini(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's reference-free schema as Gemini's `Schema`; empty if the tool has no params.

    Gemini rejects objects without properties, and any keyword next to `anyOf`.
    """
    return _convert_part(schema) if schema.get("properties") else {}


def _convert_part(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = _list_kinds(schema)
    named = [kind for kind in kinds if kind != "null"]
    found: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    if found.get("format") not in (None, *_FORMATS):
        del found["format"]
    if "null" in kinds:
        found["nullable"] = True
    branches = [branch for key in ("anyOf", "oneOf") for branch in schema.get(key, ()) if isinstance(branch, dict)]
    if branches:
        return _make_union(found, branches)
    kind = named[0] if named else "string"
    if kind == "object" and not schema.get("properties"):
        return _as_json_text(found)
    found["type"] = kind.upper()
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and kind == "string":  # enums of other types are not in Gemini's Schema
        found["enum"] = [value for value in values if isinstance(value, str)]
        found["format"] = "enum"
    if kind == "object":
        properties = {name: _convert_part(part) for name, part in _convert_properties(schema).items()}
        found["properties"] = properties
        if required := [name for name in schema.get("required", ()) if name in properties]:
            found["required"] = required
    if kind == "array":
        items = schema.get("items")
        found["items"] = _convert_part(items) if isinstance(items, dict) else {"type": "STRING"}
    return found


def _make_union(found: dict[str, Any], branches: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a choice without other keywords; title, description and nullable are repeated in each branch."""
    common = {key: found[key] for key in ("title", "description", "nullable") if key in found}
    own = [_convert_part(branch) for branch in branches if _list_kinds(branch) != ["null"]]
    if len(own) < len(branches):
        common["nullable"] = True
    if not own:
        return common | {"type": "STRING"}
    if len(own) == 1 and "anyOf" not in own[0]:
        return found | common | own[0]
    flat = [each for part in own for each in part.get("anyOf", [part])]
    return {"anyOf": [common | each for each in flat]}


def _as_json_text(found: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a string that replaces an object without listed properties.

    The string is the object as JSON text, and a call converts it back to the object.
    """
    description = " ".join(filter(None, (found.get("description"), "An object, as JSON text.")))
    kept = {key: found[key] for key in ("title", "nullable") if key in found}
    return kept | {"type": "STRING", "description": description}


def _list_kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return [kinds]
    if isinstance(kinds, list):
        return [kind for kind in kinds if isinstance(kind, str)]
    if "properties" in schema:
        return ["object"]
    return ["array"] if "items" in schema else []


def _convert_properties(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    properties = schema.get("properties", {})
    return {name: part if isinstance(part, dict) else {"type": "string"} for name, part in properties.items()}
