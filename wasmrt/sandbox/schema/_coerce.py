"""Convert strings to the type that a schema requires, if only one conversion is possible.

Models write `"5"` for 5 and `"[1, 2]"` for an array. If a schema allows no string, a string that is the JSON text of a
value of an allowed type can only mean that value. Similarly, the name of a variant's case without payload can only mean
that case. Nothing else is changed and no information is lost: a number with more digits than a double can represent,
and JSON with duplicate names, are left unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_PARAMS_BYTES
from wasmrt.core.strict_json import JsonError, read_json

_ALL = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_UNCHANGED: Any = object()

Schemas = list[Mapping[str, Any]]


def coerce_value(schema: Mapping[str, Any], value: Any) -> Any:
    """Return `value` with its strings converted to the types of `schema`, which must be reference-free."""
    return _coerce([schema], value)


def _coerce(schemas: Schemas, value: Any) -> Any:
    applying = list(_iter_applying(schemas, value))
    if isinstance(value, str):
        read = _convert(applying, value)
        if read is _UNCHANGED:
            return value
        value = read
        applying = list(_iter_applying(schemas, value))
    if isinstance(value, dict):
        return _coerce_object(applying, value)
    if isinstance(value, list):
        return _coerce_array(applying, value)
    return value


def _convert(schemas: Schemas, text: str) -> Any:
    """Return the only value that a string can mean, or `_UNCHANGED`."""
    types = _find_types(schemas, text)
    if "string" in types:
        return _UNCHANGED
    value = _read_text(text, types)
    if value is _UNCHANGED:
        value = _convert_case(schemas, text)
    allowed = [options for options in map(_get_options, schemas) if options is not None]
    return value if all(value in options for options in allowed) else _UNCHANGED


def _convert_case(schemas: Schemas, text: str) -> Any:
    """Convert the name of a case without payload to the case, such as `"none"` to `{"tag": "none"}`.

    Return `_UNCHANGED` if `text` is not the name of such a case.
    """
    named = {"type": "object", "properties": {"tag": {"type": "string", "const": text}}, "required": ["tag"]}
    branches = [branch for schema in schemas for choice in ("anyOf", "oneOf") for branch in schema.get(choice, ())]
    cases = [branch for branch in branches if isinstance(branch, dict) and branch | named == branch]
    return {"tag": text} if len(cases) == 1 else _UNCHANGED


def _iter_applying(schemas: Iterable[Any], value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield each schema that certainly applies to `value`.

    This includes all schemas in allOf, and the branch of a choice if no other branch of the choice can apply.
    """
    for schema in schemas:
        if not isinstance(schema, dict):
            continue
        yield schema
        yield from _iter_applying(schema.get("allOf", ()), value)
        for choice in ("anyOf", "oneOf"):
            branches = [branch for branch in schema.get(choice, ()) if _may_be(branch, value)]
            if len(branches) == 1:
                yield from _iter_applying(branches, value)


def _may_be(branch: Any, value: Any) -> bool:
    """Return whether `value` can belong to a branch: whether its type and its discriminators (constant fields) fit."""
    if not isinstance(branch, dict):
        return branch is True
    if isinstance(value, str):
        return True
    if _get_type(value) not in _find_own_types(branch, value):
        return False
    if not isinstance(value, dict):
        return True
    required = branch.get("required", ())
    for name, schema in branch.get("properties", {}).items():
        options = _get_options(schema)
        if options is not None and (value[name] not in options if name in value else name in required):
            return False
    return all(name in value for name in required) or _has_tag(branch)


def _has_tag(branch: Mapping[str, Any]) -> bool:
    """Return whether a branch has a discriminator. If so, a missing field is an error, not a sign of another one."""
    return any(_get_options(schema) is not None for schema in branch.get("properties", {}).values())


def _get_options(schema: Any) -> list[Any] | None:
    if isinstance(schema, dict):
        if "const" in schema:
            return [schema["const"]]
        if isinstance(schema.get("enum"), list):
            return list(schema["enum"])
    return None


def _find_types(schemas: Iterable[Any], value: Any) -> frozenset[str]:
    """Return the JSON types that all of `schemas` accept; with `number`, `integer` is also included."""
    types = _ALL
    for schema in schemas:
        types &= _find_own_types(schema, value)
    return types


def _find_own_types(schema: Any, value: Any) -> frozenset[str]:
    if not isinstance(schema, dict):
        return _ALL if schema is True else frozenset()
    types = _ALL
    if "type" in schema:
        named = schema["type"]
        types &= frozenset([named] if isinstance(named, str) else named)
        if "number" in types:
            types |= {"integer"}
    options = _get_options(schema)
    if options is not None:
        # With an enum, only the listed strings count as strings.
        types &= frozenset(_get_type(o) for o in options if not isinstance(o, str) or o == value)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            types &= frozenset().union(*(_find_own_types(branch, value) for branch in schema[choice]))
    for inner in schema.get("allOf", ()):
        types &= _find_own_types(inner, value)
    return types


def _get_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _read_text(text: str, types: frozenset[str]) -> Any:
    if "boolean" in types and text in ("True", "False"):
        return text == "True"  # Python's spelling
    try:
        value = read_json(text, max_bytes=MAX_PARAMS_BYTES, max_depth=MAX_JSON_DEPTH, exact=True)
    except JsonError:
        return _UNCHANGED
    if _get_type(value) not in types:
        return _UNCHANGED
    if isinstance(value, float) and value.is_integer() and "number" not in types:
        return int(value)
    return value


def _coerce_object(schemas: Schemas, value: dict[str, Any]) -> dict[str, Any]:
    required = {name for schema in schemas for name in schema.get("required", ())}
    changed: dict[str, Any] = {}
    for name, item in value.items():
        inner = [schema for each in schemas for schema in _list_property_schemas(each, name)]
        if item is None and name not in required and inner and "null" not in _find_types(inner, None):
            continue
        changed[name] = _coerce(inner, item) if inner else item
    return changed


def _list_property_schemas(schema: Mapping[str, Any], name: str) -> list[Any]:
    if name in schema.get("properties", {}):
        return [schema["properties"][name]]
    # Patterns are not matched here, so it is unknown whether additionalProperties applies if there are patterns.
    return (
        [schema["additionalProperties"]]
        if "additionalProperties" in schema and "patternProperties" not in schema
        else []
    )


def _coerce_array(schemas: Schemas, value: list[Any]) -> list[Any]:
    return [
        _coerce(inner, item)
        if (inner := [schema for each in schemas for schema in _list_item_schemas(each, index)])
        else item
        for index, item in enumerate(value)
    ]


def _list_item_schemas(schema: Mapping[str, Any], index: int) -> list[Any]:
    items = schema.get("items")
    first = schema.get("prefixItems", items if isinstance(items, list) else [])
    if index < len(first):
        return [first[index]]
    rest = schema.get("additionalItems") if isinstance(items, list) else items
    return [] if rest is None else [rest]
