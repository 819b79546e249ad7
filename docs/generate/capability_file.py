"""The reference of the capability file, from its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from wasmrt.capabilities import METHODS, Capabilities
from wasmrt.capabilities.file import capability_schema

_NESTED = "capabilities"


def sections() -> str:
    """Describe every key: its path, its type, whether it has to be there, its meaning and its other spellings."""
    known = capability_schema()["properties"]
    names = [name for name, field in known.items() if not field.get("deprecated") and name != _NESTED]
    granting = {field.name for field in fields(Capabilities)}
    asking = [name for name in names if granting & {name, *_other_spellings(name, known)}]
    lines = []
    for name in asking:
        lines += [f"### {name}", "", *_table(_rows(name, known)), ""]
    lines += ["### Sections that describe", "", "They ask for nothing.", ""]
    lines += _table(row for name in names if name not in asking for row in _rows(name, known))
    return "\n".join(lines)


def _table(rows: Iterator[str]) -> list[str]:
    return ["| key | type | meaning |", "|---|---|---|", *rows]


def _rows(path: str, siblings: dict[str, Any], *, required: bool = False, only_for: str = "") -> Iterator[str]:
    """Yield the row of a key, and those of what stands in it."""
    name = path.rpartition(".")[2]
    field = siblings[name]
    meaning = only_for + field.get("description", "") + " Required." * required
    if also := _other_spellings(name, siblings):
        meaning += f" Also read: {', '.join(f'`{other}`' for other in also)}."
    yield f"| `{path}` | {_type(field)} | {meaning} |"
    for inner, schema in _inside(path, field):
        kind = schema["properties"].get("type", {}).get("const")
        for key, value in schema["properties"].items():
            if not value.get("deprecated") and "const" not in value:
                must, which = _is_required(key, schema), f"For `{kind}`: " if kind else ""
                yield from _rows(f"{inner}.{key}", schema["properties"], required=must, only_for=which)


def _inside(path: str, field: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects that a key holds, with the path of each."""
    members = (
        (path, field),
        (f"{path}[]", field.get("items")),
        (f"{path}.NAME", field.get("additionalProperties")),
        *((path, choice) for choice in (*field.get("oneOf", ()), *field.get("anyOf", ()))),
    )
    for inner, schema in members:
        if isinstance(schema, dict) and "properties" in schema:
            yield inner, schema


def _other_spellings(name: str, siblings: dict[str, Any]) -> list[str]:
    return [other for other, field in siblings.items() if field.get("$comment") == f"read as {name}"]


def _is_required(key: str, schema: dict[str, Any]) -> bool:
    own = {key, *_other_spellings(key, schema["properties"])}
    return any(
        all(own & {*condition.get("required", ())} for condition in part.get("anyOf", [part]))
        for part in schema.get("allOf", ())
    )


def _type(field: dict[str, Any]) -> str:
    """Name a type as a person would."""
    if field.get("enum"):
        values = [value for value in field["enum"] if not (value.upper() in METHODS and value.islower())]
        return ", ".join(f"`{value}`" for value in values)
    if "oneOf" in field:
        kinds = ", ".join(f"`{choice['properties']['type']['const']}`" for choice in field["oneOf"])
        return f"object; `type` is one of {kinds}"
    if "anyOf" in field:
        return " or ".join(_type(choice) for choice in field["anyOf"])
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_type(field['items'])}" if field["items"] else "list"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return "object of names"
    return kind
