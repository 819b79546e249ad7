"""Remove choices from a schema's top level, for providers that do not support them there.

`{"oneOf": [{"properties": {"action": {"const": "create"}, ...}, "required": [...]}, ...]}` becomes one object with the
properties of all forms. A property is required if every form requires it, and the description lists the forms. Calls
are still checked against the tool's own schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema._document import ANNOTATIONS

MAX_FORMS = 50
_MAX_RULE_BYTES = 400
_MAX_DESCRIPTION_BYTES = 4096
_CHOICES = {"oneOf": "Exactly one of these forms", "anyOf": "At least one of these forms"}
# Keywords next to `type: object` that OpenAI or Anthropic reject or ignore.
_RULES = (
    "const", "dependencies", "dependentRequired", "dependentSchemas", "else", "enum", "if", "not", "then",
)  # fmt: skip
_DROPPED = ("$comment", "$schema", *_RULES, "allOf", *_CHOICES)


def flatten(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reference-free object schema without choices and conditions at its top level."""
    notes: list[str] = []
    flat = _flatten_schema(schema, notes)
    if flat.pop("unevaluatedProperties", None) is False:
        flat["additionalProperties"] = False
    described = flat.pop("description", None)
    text = " ".join([*([described] if isinstance(described, str) and described else []), *notes])
    order = {"type": "object", **({"description": printable_line(text, _MAX_DESCRIPTION_BYTES)} if text else {})}
    return order | {key: value for key, value in flat.items() if key != "type"}


def _flatten_schema(schema: Any, notes: list[str]) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {"properties": {}, "required": []}
    flat = {key: value for key, value in schema.items() if key not in _DROPPED}
    flat["properties"] = dict(schema.get("properties", {}))
    flat["required"] = list(schema.get("required", ()))
    for member in schema.get("allOf", ()):
        _join(flat, _flatten_schema(member, notes))
    for choice, intro in _CHOICES.items():
        if schema.get(choice):
            forms = [_flatten_schema(form, notes) for form in schema[choice]]
            notes.append(f"{intro}: {_list_forms(forms)}.")
            _join(flat, _combine_forms(forms))
    rules = {key: schema[key] for key in _RULES if key in schema}
    if rules:
        text = printable_line(json.dumps(rules, ensure_ascii=False), _MAX_RULE_BYTES)
        notes.append(f"Additional rules (JSON Schema): {text}")
    return flat


def _join(flat: dict[str, Any], other: dict[str, Any]) -> None:
    """Merge `other`, which applies to the same value, into `flat`."""
    for name, schema in other["properties"].items():
        known = flat["properties"].get(name)
        flat["properties"][name] = schema if known is None or known is True else _combine_both(known, schema)
    flat["required"] += [name for name in other["required"] if name not in flat["required"]]
    if "additionalProperties" in other:
        flat.setdefault("additionalProperties", other["additionalProperties"])
    if "description" in other:
        flat.setdefault("description", other["description"])


def _combine_both(left: Any, right: Any) -> Any:
    if right is True or left == right:
        return left
    if isinstance(left, dict) and isinstance(right, dict):
        shared = (left.keys() & right.keys()) - ANNOTATIONS
        if all(left[key] == right[key] for key in shared):
            return right | left
    return {"allOf": [left, right]}


def _combine_forms(forms: list[dict[str, Any]]) -> dict[str, Any]:
    """Combine the properties of all forms. A property accepts each value that at least one of the forms accepts."""
    properties: dict[str, list[Any]] = {}
    for form in forms:
        for name, schema in form["properties"].items():
            if schema not in properties.setdefault(name, []):
                properties[name].append(schema)
    merged: dict[str, Any] = {
        "properties": {name: _make_any_of(kinds) for name, kinds in properties.items()},
        "required": [name for name in forms[0]["required"] if all(name in form["required"] for form in forms)],
    }
    if all(form.get("additionalProperties") is False for form in forms):
        merged["additionalProperties"] = False
    return merged


def _make_any_of(kinds: list[Any]) -> Any:
    if len(kinds) == 1:
        return kinds[0]
    options: list[Any] = []
    for kind in kinds:
        listed = _get_options(kind)
        if listed is None:
            return {"anyOf": kinds}
        options += [option for option in listed if option not in options]
    typed = {"type": "string"} if all(isinstance(option, str) for option in options) else {}
    return {**typed, "enum": options}


def _get_options(kind: Any) -> list[Any] | None:
    if isinstance(kind, dict) and "const" in kind:
        return [kind["const"]]
    return list(kind["enum"]) if isinstance(kind, dict) and isinstance(kind.get("enum"), list) else None


def _list_forms(forms: list[dict[str, Any]]) -> str:
    listed = [f"({number}) {_describe_form(form)}" for number, form in enumerate(forms[:MAX_FORMS], 1)]
    more = f" and {len(forms) - MAX_FORMS} more" if len(forms) > MAX_FORMS else ""
    return "; ".join(listed) + more


def _describe_form(form: dict[str, Any]) -> str:
    fixed = {
        n: options[0] for n, kind in form["properties"].items() if (options := _get_options(kind)) and len(options) == 1
    }
    parts = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fixed.items()]
    required = [name for name in form["required"] if name not in fixed]
    optional = [name for name in form["properties"] if name not in fixed and name not in required]
    if required:
        parts.append(f"requires {', '.join(required)}")
    if optional:
        parts.append(f"optional {', '.join(optional)}")
    return ", ".join(parts) or "anything"
