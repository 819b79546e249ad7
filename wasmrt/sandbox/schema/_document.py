"""Read a JSON Schema document, and list its subschemas.

Schemas come from guests, so their size, nesting and dialect are checked before anything else processes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wasmrt.core.limits import KIB, MAX_JSON_DEPTH, MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH
from wasmrt.core.strict_json import JsonError, JsonFault, read_json, write_json
from wasmrt.sandbox.component import printable_line

# Keywords of JSON Schema 2020-12, sections 10 and 11, and the additional ones of drafts 4 to 2019-09.
ONE = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
MANY = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
MAP = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
ANNOTATIONS = frozenset({"$comment", "default", "deprecated", "description", "examples", "readOnly", "title"})
DRAFTS = frozenset({
    "http://json-schema.org/draft-04/schema", "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema", "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
})  # fmt: skip


class SchemaError(Exception):
    """A schema cannot be used. The message completes a sentence that starts with `the schema`."""


def read_schema(schema: str | Mapping[str, Any]) -> dict[str, Any]:
    """Check a schema's size, depth and keywords, and return the schema unchanged. It may still be an invalid schema.

    Raises:
        SchemaError: the schema is not a JSON object, exceeds a limit, or uses an unsupported keyword.
    """
    try:
        text = schema if isinstance(schema, str) else write_json(schema)
        data = read_json(text, max_bytes=MAX_SCHEMA_BYTES, max_depth=MAX_JSON_DEPTH)
    except JsonError as error:
        known = {
            JsonFault.DEPTH: f"is JSON nested over {MAX_JSON_DEPTH} deep",
            JsonFault.SIZE: f"is over {MAX_SCHEMA_BYTES // KIB} KiB",
        }
        raise SchemaError(known.get(error.fault) or f"is {printable_line(str(error), 120)}") from None
    if not isinstance(data, dict):
        raise SchemaError("is not a JSON object")
    if data.get("type", "object") != "object":
        raise SchemaError(f"is of type {printable_line(json.dumps(data['type']), 60)}, but params must be an object")
    if "$schema" in data and str(data["$schema"]).removesuffix("#") not in DRAFTS:
        raise SchemaError(f"has an unknown dialect, {printable_line(str(data['$schema']), 100)}")
    check_document(data)
    return data


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield each schema directly inside `schema`, with its path."""
    for key, value in schema.items():
        if key in MAP and isinstance(value, dict):
            for name, inner in value.items():
                if not isinstance(inner, list):  # draft 7's dependencies: a list of names
                    yield (key, name), inner
        elif key in MANY and isinstance(value, list):
            for index, inner in enumerate(value):
                yield (key, index), inner
        elif key in ONE:
            yield (key,), value


def map_subschemas(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a copy of `schema` in which `change` was applied to each schema directly inside it."""
    copy: dict[str, Any] = {}
    for key, value in schema.items():
        if key in MAP and isinstance(value, dict):
            copy[key] = {name: inner if isinstance(inner, list) else change(inner) for name, inner in value.items()}
        elif key in MANY and isinstance(value, list):
            copy[key] = [change(inner) for inner in value]
        elif key in ONE:
            copy[key] = change(value)
        else:
            copy[key] = value
    return copy


def check_document(schema: Any, depth: int = 1) -> None:
    """Check that a schema uses no unsupported references and is not nested too deeply. The schema itself is at `depth`.

    Raises:
        SchemaError: the schema is refused.
    """
    if not isinstance(schema, dict):
        return
    if depth > MAX_SCHEMA_DEPTH:
        raise SchemaError(f"is nested over {MAX_SCHEMA_DEPTH} deep")
    for keyword in ("$dynamicRef", "$recursiveRef"):
        if keyword in schema:
            raise SchemaError(f"uses {keyword}; write $ref with #/$defs/NAME")
    if depth > 1 and "$id" in schema:
        raise SchemaError("has an $id in a subschema, which would change the meaning of $ref")
    if not isinstance(schema.get("allOf", []), list):
        raise SchemaError("has an allOf that is not an array")
    ref = schema.get("$ref", "#")
    if not (isinstance(ref, str) and (ref == "#" or ref.startswith("#/"))):
        raise SchemaError(f"refers to {printable_line(str(ref), 100)}; only references to itself, #/..., are supported")
    for _, inner in subschemas(schema):
        check_document(inner, depth + 1)
