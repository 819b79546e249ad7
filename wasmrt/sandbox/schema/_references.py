"""A guest's JSON Schema made safe to run: self-contained, every `$ref` written out.

SECURITY: after this no reference is left, so nothing can be fetched; and no schema applies to one value through more
than a bounded number of paths, which a few nested `$defs` would otherwise double at every step.
A recursive definition is written out a few levels deep; what lies below is left to the guest, who checks it anyway,
and so is a part whose reference leads nowhere.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from wasmrt.core.limits import MAX_SCHEMA_PARTS
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema._document import ANNOTATIONS, SchemaError, check_document, rebuilt

_DROPPED = frozenset({"$anchor", "$defs", "$dynamicAnchor", "$id", "$ref", "$schema", "$vocabulary", "definitions"})
_MAX_NESTING = 80
"""Schemas inside schemas once written out; the validator's own recursion ends at 255 JSON levels."""
_MAX_UNEVALUATED = 3
_REPEATS = (4, 2, 1, 0)


def inlined(
    schema: dict[str, Any], *, repeats: tuple[int, ...] = _REPEATS, gaps: set[str] | None = None
) -> dict[str, Any]:
    """Return a schema that `read_schema` returned, with every reference written out.

    `repeats` are the depths of recursion to try, until the whole is within bounds. Where a reference leads nowhere
    anything is taken; `gaps` gets a sentence on each.

    Raises:
        SchemaError: the references multiply beyond the bound.
    """
    for depth in repeats:
        inliner = _Inliner(schema, depth)
        try:
            written = inliner.expand(schema, 1)
        except _TooLargeError:
            continue
        assert isinstance(written, dict)
        if gaps is not None:
            gaps.update(inliner.gaps)
        return {"$schema": schema["$schema"], **written} if "$schema" in schema else written
    raise SchemaError(f"has references that write out to over {MAX_SCHEMA_PARTS:,} parts")


class _TooLargeError(Exception):
    pass


class _GapError(Exception):
    """A reference that leads nowhere."""


def _loosened(key: str, part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a schema, in which something takes anything now, so that it refuses no more for it."""
    if key in ("not", "if"):
        return {}
    if key == "oneOf":  # more than one form may fit now
        return {"allOf": [{"anyOf": part["oneOf"]}]}
    return part


def _join(rest: dict[str, Any], part: dict[str, Any]) -> None:
    for key, value in part.items():
        rest[key] = [*rest[key], *value] if key == "allOf" and key in rest else value


class _Inliner:
    def __init__(self, root: dict[str, Any], repeats: int) -> None:
        self._root = root
        self._repeats = repeats
        self._parts = 0
        self._open: list[str] = []
        self._unevaluated = 0
        self.gaps: list[str] = []

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
        known = len(self.gaps)
        rest: dict[str, Any] = {}
        for key, value in schema.items():
            if key not in _DROPPED:
                before = len(self.gaps)
                part = rebuilt({key: value}, lambda inner: self.expand(inner, depth + 1))
                _join(rest, part if len(self.gaps) == before else _loosened(key, part))
        target = self._follow(schema["$ref"], depth) if "$ref" in schema else None
        self._unevaluated -= looks_back
        if looks_back and len(self.gaps) > known:
            rest = {key: value for key, value in rest.items() if not key.startswith("unevaluated")}
        if "if" not in rest:
            rest = {key: value for key, value in rest.items() if key not in ("then", "else")}
        if target is None:
            return rest
        if isinstance(target, dict) and rest.keys() <= ANNOTATIONS:
            return target | rest
        return {**rest, "allOf": [*rest.get("allOf", ()), target]}

    def _follow(self, ref: str, depth: int) -> Any:
        if self._open.count(ref) > self._repeats:
            return {}
        try:
            target = _target(self._root, ref)
        except _GapError as gap:
            self.gaps.append(f"refers to {printable_line(ref, 100)}, {gap}: that part is not checked")
            return {}
        check_document(target)
        self._open.append(ref)
        try:
            return self.expand(target, depth + 1)
        finally:
            self._open.pop()


def _target(root: dict[str, Any], ref: str) -> Any:
    """Return what a JSON pointer in a fragment names (RFC 6901, section 6)."""
    found: Any = root
    for part in ref.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name[:6]) < len(found):
            found = found[int(name[:6])]
        else:
            raise _GapError("which is not there")
    if not isinstance(found, (dict, bool)):
        raise _GapError("which is not a schema")
    return found
