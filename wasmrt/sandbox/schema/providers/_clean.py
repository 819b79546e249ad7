"""Rewrite the parts of a flattened schema with the keywords and forms that providers support.

In the result no `type` is a list, no schema is a boolean, every array has `items`, and property names match
`[a-zA-Z0-9_.-]{1,64}`; properties with other names are only mentioned in the description.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema._document import ANNOTATIONS, map_subschemas
from wasmrt.sandbox.schema.wit import NON_FINITE

_PROPERTY_NAME = r"[a-zA-Z0-9_.-]{1,64}"
_MAX_ORDER_BYTES, _MAX_ODD_BYTES = 500, 1000
_TYPED = {
    "array": {"contains", "items", "maxContains", "maxItems", "minContains", "minItems", "prefixItems", "uniqueItems"},
    "number": {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"},
    "object": {
        "additionalProperties", "dependentRequired", "dependentSchemas", "maxProperties", "minProperties",
        "patternProperties", "properties", "propertyNames", "required", "unevaluatedProperties",
    },
    "string": {"contentEncoding", "contentMediaType", "format", "maxLength", "minLength", "pattern"},
}  # fmt: skip
_TYPED["integer"] = _TYPED["number"]
"""Keywords that apply only to values of one type."""
_ALL_TYPED = frozenset().union(*_TYPED.values())
_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "array": list, "object": dict, "integer": int, "number": (int, float), "boolean": bool,
    "null": type(None),
}  # fmt: skip


def clean(schema: Any, *, openai: bool) -> Any:
    """Convert a reference-free schema to the form that all providers support, or, with `openai`, to OpenAI's form."""
    if schema is True:
        return {}
    if not isinstance(schema, dict):
        return {"not": {}}
    closed = {key: schema[key] for key in ("additionalProperties",) if isinstance(schema.get(key), bool)}
    dropped = {*closed, "$comment", "unevaluatedProperties"}
    part = map_subschemas(
        {key: value for key, value in schema.items() if key not in dropped}, lambda inner: clean(inner, openai=openai)
    )
    part = _split_types(_replace_nan_choice(_replace_flag_bounds(_clean_array(part, openai=openai)))) | closed
    if openai and "oneOf" in part:
        # OpenAI supports only anyOf. The tool's own schema still checks that exactly one form matches.
        choice = {"anyOf": part.pop("oneOf")}
        part = _add_condition(part, choice) if "anyOf" in part else part | choice
    return _drop_unsupported_names(part, schema)


def _add_condition(schema: dict[str, Any], condition: dict[str, Any]) -> dict[str, Any]:
    return schema | {"allOf": [*schema.get("allOf", ()), condition]}


def _replace_flag_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace draft 4's exclusive bounds, which are flags, with numeric bounds."""
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(flag), bool):
            rest = {key: value for key, value in schema.items() if key not in (flag, bound)}
            schema = rest | ({flag if schema[flag] else bound: schema[bound]} if bound in schema else {})
    return schema


def _clean_array(schema: dict[str, Any], *, openai: bool) -> dict[str, Any]:
    """Set `items` of an array. OpenAI has no `prefixItems`: with `openai`, the description lists a tuple's items."""
    kind = schema.get("type")
    if "array" not in (kind if isinstance(kind, list) else [kind]) and "prefixItems" not in schema:
        return schema
    items = schema.get("items")
    first = items if isinstance(items, list) else schema.get("prefixItems")
    if first is None:
        return schema | {"items": {} if items is None else items}
    others = {key: value for key, value in schema.items() if key not in ("items", "prefixItems", "additionalItems")}
    rest = schema.get("additionalItems") if isinstance(items, list) else items
    if rest == {"not": {}}:
        others.setdefault("maxItems", len(first))
        kinds = first
    elif rest is None and others.get("maxItems", len(first) + 1) <= len(first):
        kinds = first
    else:
        kinds = [*first, {} if rest is None else rest]
    if not openai:
        return others | {"prefixItems": first, "items": _make_choice(kinds)}
    order = f"in this order: {printable_line(json.dumps(first, ensure_ascii=False), _MAX_ORDER_BYTES)}"
    others["description"] = f"{others['description']} ({order})" if "description" in others else order
    return others | {"items": _make_choice(kinds)}


def _make_choice(kinds: list[Any]) -> dict[str, Any]:
    distinct = [kind for index, kind in enumerate(kinds) if kind not in kinds[:index]]
    if {} in distinct or not distinct:
        return {}
    return dict(distinct[0]) if len(distinct) == 1 else {"anyOf": distinct}


def _replace_nan_choice(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace the choice of a number or "NaN" with a number, because models rarely need NaN."""
    choices = schema.get("anyOf")
    if not isinstance(choices, list):
        return schema
    kept = [c for c in choices if not (isinstance(c, dict) and c.get("enum") == list(NON_FINITE))]
    if len(kept) == len(choices) or not kept:
        return schema
    if len(kept) > 1:
        return schema | {"anyOf": kept}
    merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "anyOf"} | kept[0]
    return merged


def _split_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace a list of types with a choice of schemas, each with the keywords of its type."""
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return schema
    if len(kinds) == 1:
        return schema | {"type": kinds[0]}
    choices = [choice for kind in kinds if (choice := _select_type(kind, schema)) is not None]
    annotations = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    if not choices:
        return {**annotations, "not": {}}
    moved = {"anyOf", "enum", "type", *annotations, *_ALL_TYPED}
    rest = annotations | {key: value for key, value in schema.items() if key not in moved}
    if "anyOf" in schema:
        rest = _add_condition(rest, {"anyOf": schema["anyOf"]})
    return rest | {"anyOf": choices}


def _select_type(kind: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part of a schema that applies to one type; None if the schema's enum has no value of this type."""
    own = {key: value for key, value in schema.items() if key in _TYPED.get(kind, ())}
    if "enum" in schema:
        own["enum"] = [option for option in schema["enum"] if _is(kind, option)]
        if not own["enum"]:
            return None
    return {"type": kind, **own}


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _PYTHON_TYPES.get(kind, ()))


def _drop_unsupported_names(part: dict[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """Move properties with unsupported names to the description. A call can still send these properties."""
    properties = part.get("properties")
    if not isinstance(properties, dict):
        return part
    written = source.get("properties", {})  # without the properties of merged branches
    allowed = {name: kind for name, kind in properties.items() if written.get(name) is not False}
    odd = {name: kind for name, kind in allowed.items() if re.fullmatch(_PROPERTY_NAME, name) is None}
    result = part | {"properties": {name: kind for name, kind in allowed.items() if name not in odd}}
    if "required" in result:
        result["required"] = [name for name in result["required"] if name not in odd]
    if odd:
        note = f"Also takes {printable_line(json.dumps(odd, ensure_ascii=False), _MAX_ODD_BYTES)}"
        result["description"] = f"{result['description']} {note}" if "description" in result else note
        if result.get("additionalProperties") is False:
            del result["additionalProperties"]
    return result
