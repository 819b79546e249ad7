"""A guest's JSON Schema made safe to run: bounded, self-contained, every `$ref` written out.

SECURITY: after this no reference is left, so nothing can be fetched; and no schema applies to one value through more
than a bounded number of paths, which a few nested `$defs` would otherwise double at every step.
A recursive definition is written out a few levels deep; what lies below is left to the guest, who checks it anyway.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from wasmrt.component import plain
from wasmrt.limits import KIB, MAX_JSON_DEPTH, MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, MAX_SCHEMA_PARTS
from wasmrt.strict_json import JsonError, JsonFault, read_json, write_json

# JSON Schema 2020-12, sections 10 and 11, and what drafts 4 to 2019-09 had besides.
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
_DROPPED = frozenset({"$anchor", "$defs", "$dynamicAnchor", "$id", "$ref", "$schema", "$vocabulary", "definitions"})
_MAX_NESTING = 80
"""Schemas inside schemas once written out; the validator's own recursion ends at 255 JSON levels."""
_MAX_UNEVALUATED = 3
_REPEATS = (4, 2, 1, 0)


class SchemaError(Exception):
    """Why a schema cannot be used, as the end of a sentence that starts with `the schema`."""


def read_schema(schema: str | Mapping[str, Any]) -> dict[str, Any]:
    """A schema as written, checked against every bound but not for sense.

    Raises:
        SchemaError: it is not JSON, not an object, over a bound, or uses what is refused here.
    """
    try:
        text = schema if isinstance(schema, str) else write_json(schema)
        data = read_json(text, max_bytes=MAX_SCHEMA_BYTES, max_depth=MAX_JSON_DEPTH)
    except JsonError as error:
        known = {
            JsonFault.DEPTH: f"is JSON nested over {MAX_JSON_DEPTH} deep",
            JsonFault.SIZE: f"is over {MAX_SCHEMA_BYTES // KIB} KiB",
        }
        raise SchemaError(known.get(error.fault) or f"is {plain(str(error), 120)}") from None
    if not isinstance(data, dict):
        raise SchemaError("is not a JSON object")
    if data.get("type", "object") != "object":
        raise SchemaError(f"is of type {plain(json.dumps(data['type']), 60)}, and params are an object")
    if "$schema" in data and str(data["$schema"]).removesuffix("#") not in DRAFTS:
        raise SchemaError(f"names a dialect that is not known, {plain(str(data['$schema']), 100)}")
    _check(data, 1)
    return data


def inlined(schema: dict[str, Any], *, repeats: tuple[int, ...] = _REPEATS) -> dict[str, Any]:
    """A schema that `read_schema` returned, with every reference written out.

    `repeats` are the depths of recursion to try, until the whole is within bounds.

    Raises:
        SchemaError: a reference leads nowhere, or the references multiply beyond the bound.
    """
    for depth in repeats:
        try:
            written = _Inliner(schema, depth).expand(schema, 1)
        except _TooLargeError:
            continue
        assert isinstance(written, dict)
        return {"$schema": schema["$schema"], **written} if "$schema" in schema else written
    raise SchemaError(f"has references that write out to over {MAX_SCHEMA_PARTS:,} parts")


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Each schema directly inside `schema`, with its place."""
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


def rebuilt(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy of `schema` with each schema directly inside it replaced by `change` of it."""
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


def _check(schema: Any, depth: int) -> None:
    if not isinstance(schema, dict):
        return
    if depth > MAX_SCHEMA_DEPTH:
        raise SchemaError(f"is nested over {MAX_SCHEMA_DEPTH} deep")
    for keyword in ("$dynamicRef", "$recursiveRef"):
        if keyword in schema:
            raise SchemaError(f"uses {keyword}; write $ref with #/$defs/NAME")
    if depth > 1 and "$id" in schema:
        raise SchemaError("has an $id below its top, which changes what $ref means")
    ref = schema.get("$ref")
    if ref is not None and not (isinstance(ref, str) and (ref == "#" or ref.startswith("#/"))):
        raise SchemaError(f"refers to {plain(str(ref), 100)}; only references into itself, #/..., are followed")
    for _, inner in subschemas(schema):
        _check(inner, depth + 1)


class _TooLargeError(Exception):
    pass


class _Inliner:
    def __init__(self, root: dict[str, Any], repeats: int) -> None:
        self._root = root
        self._repeats = repeats
        self._parts = 0
        self._open: list[str] = []
        self._unevaluated = 0

    def expand(self, schema: Any, depth: int) -> Any:
        self._parts += 1
        if self._parts > MAX_SCHEMA_PARTS or depth > _MAX_NESTING:
            raise _TooLargeError
        if not isinstance(schema, dict):
            return schema
        looks_back = not schema.keys().isdisjoint(("unevaluatedItems", "unevaluatedProperties"))
        self._unevaluated += looks_back
        if self._unevaluated > _MAX_UNEVALUATED:
            # SECURITY: each one evaluates everything below it once more, which doubles the work at every level.
            raise SchemaError(f"nests unevaluatedProperties or unevaluatedItems over {_MAX_UNEVALUATED} deep")
        rest = rebuilt(
            {key: value for key, value in schema.items() if key not in _DROPPED},
            lambda inner: self.expand(inner, depth + 1),
        )
        target = self._follow(schema["$ref"], depth) if "$ref" in schema else None
        self._unevaluated -= looks_back
        if target is None:
            return rest
        if isinstance(target, dict) and rest.keys() <= ANNOTATIONS:
            return target | rest
        return {**rest, "allOf": [*rest.get("allOf", ()), target]}

    def _follow(self, ref: str, depth: int) -> Any:
        if self._open.count(ref) > self._repeats:
            return {}
        target = _target(self._root, ref)
        _check(target, 1)
        self._open.append(ref)
        try:
            return self.expand(target, depth + 1)
        finally:
            self._open.pop()


def _target(root: dict[str, Any], ref: str) -> Any:
    """What a JSON pointer in a fragment names (RFC 6901, section 6)."""
    found: Any = root
    for part in ref.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name[:6]) < len(found):
            found = found[int(name[:6])]
        else:
            raise SchemaError(f"refers to {plain(ref, 100)}, which is not there")
    if not isinstance(found, (dict, bool)):
        raise SchemaError(f"refers to {plain(ref, 100)}, which is not a schema")
    return found
