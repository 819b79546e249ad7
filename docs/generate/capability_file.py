"""Generate the reference of the capability file from its JSON Schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from wasmrt.capabilities import METHODS, Capabilities
from wasmrt.capabilities.file import capability_schema

_NESTED = "capabilities"
_DESCRIBING = (
    "They request nothing, except `auth.oauth`. The keys of `auth` are those listed above for `logins.NAME`. "
    "`wasmrt advanced caps-schema` prints all keys."
)


def sections() -> str:
    """Return lists of the keys: path, type, meaning, and whether each is required."""
    known = capability_schema()["properties"]
    names = [name for name, field in known.items() if not field.get("deprecated") and name != _NESTED]
    granting = {field.name for field in fields(Capabilities)}
    asking = [name for name in names if granting & {name, *_other_spellings(name, known)}]
    described: dict[str, str] = {}
    lines = []
    for name in asking:
        lines += [f"### {name}", "", *_join_references(_rows(name, known, described)), ""]
    lines += ["### Descriptive sections", "", _DESCRIBING, ""]
    rest = [name for name in names if name not in asking]
    unused = [name for name in rest if known[name].get("description", "").startswith("For other tool runtimes")]
    lines += [f"- `{name}`: {known[name].get('description', '')}" for name in rest if name not in unused]
    lines += [f"- {', '.join(f'`{name}`' for name in unused)}: For other tool runtimes; wasmrt does not use them."]
    return "\n".join(lines)


def _join_references(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines, with consecutive references to sections of the same name in one line."""
    references: list[str] = []
    for line in lines:
        if match := re.fullmatch(r"- (`tools\.NAME\.(\w+)`) .*: As `\2`\.", line):
            references.append(match[1])
            continue
        if references:
            yield f"- {', '.join(references)}: As the sections of the component."
            references = []
        yield line


def _rows(
    path: str, siblings: dict[str, Any], described: dict[str, str], *, required: bool = False, only_for: str = ""
) -> Iterator[str]:
    """Yield the line of a key and the lines of its nested keys.

    Args:
        described: Objects whose keys have lines, from their JSON to their path. Later equal objects refer to them.
    """
    field = siblings[path.rpartition(".")[2]]
    meaning = only_for + field.get("description", "")
    nested = list(_inside(path, field))
    same = described.setdefault(json.dumps([schema for _, schema in nested]), path) if nested else path
    if same != path:
        meaning = (
            f"As `{same}`." if same.rpartition(".")[2] == path.rpartition(".")[2] else f"{meaning} Keys as in `{same}`."
        )
        nested = []
    kind = _type(field)
    yield f"- `{path}`{'*' * required}{'' if kind == 'string' else f' ({kind})'}: {meaning}"
    for inner, schema in nested:
        variant = schema["properties"].get("type", {}).get("const")
        for key, value in schema["properties"].items():
            if not value.get("deprecated") and "const" not in value:
                must, which = _is_required(key, schema), f"For `{variant}`: " if variant else ""
                yield from _rows(f"{inner}.{key}", schema["properties"], described, required=must, only_for=which)


def _inside(path: str, field: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schemas of the objects inside a key, each with its path."""
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
    """Return the name of a type."""
    if field.get("enum"):
        values = [value for value in field["enum"] if not (value.upper() in METHODS and value.islower())]
        return ", ".join(f"`{value}`" for value in values)
    if "oneOf" in field:
        kinds = ", ".join(f"`{choice['properties']['type']['const']}`" for choice in field["oneOf"])
        return f"object; `type` is one of {kinds}"
    if "anyOf" in field:
        return " or ".join(_type(choice) for choice in field["anyOf"])
    if field.get("const") is True:
        return "`true`"
    kind = str(field.get("type", "any"))
    if kind == "array":
        inner = _type(field["items"]) if field["items"] else "string"
        return "list" if inner in ("string", "object") else f"list of {inner}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return "object by name"
    return kind
