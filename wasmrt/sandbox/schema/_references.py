"""Replace every `$ref` in a guest's JSON Schema with its target.

SECURITY: the result has no references, so the validator can fetch nothing, and its size is limited: a few nested
`$defs` could otherwise double it at every step. Recursive definitions are expanded a few levels deep. Deeper levels,
and parts whose references have no target, are not checked here; the guest must check them itself.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from wasmrt.core.limits import MAX_SCHEMA_PARTS
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema._document import ANNOTATIONS, SchemaError, check_document, map_subschemas

_DROPPED = frozenset({"$anchor", "$defs", "$dynamicAnchor", "$id", "$ref", "$schema", "$vocabulary", "definitions"})
_MAX_NESTING = 80
"""Maximum nesting after expansion; the validator's recursion is limited to 255 JSON levels."""
_MAX_UNEVALUATED = 3
_REPEATS = (4, 2, 1, 0)


def inline_references(
    schema: dict[str, Any], *, repeats: tuple[int, ...] = _REPEATS, gaps: set[str] | None = None
) -> dict[str, Any]:
    """Return a schema from `read_schema` with every reference replaced by its target.

    `repeats` are the depths of recursion to try, until the result is within bounds. A reference without target accepts
    any value, and a description of it is added to `gaps`.

    Raises:
        SchemaError: the expanded schema is too large.
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
    raise SchemaError(f"has references that expand to more than {MAX_SCHEMA_PARTS:,} parts")


class _TooLargeError(Exception):
    pass


class _GapError(Exception):
    """A reference has no valid target."""


def _loosen(key: str, part: dict[str, Any]) -> dict[str, Any]:
    """Relax a keyword whose subschema now accepts any value, so that it does not reject more values than before."""
    if key in ("not", "if"):
        return {}
    if key == "oneOf":  # more than one form may match now
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
            # SECURITY: each one evaluates all subschemas again, which doubles the work at every level.
            raise SchemaError(f"nests unevaluatedProperties or unevaluatedItems over {_MAX_UNEVALUATED} deep")
        known = len(self.gaps)
        rest: dict[str, Any] = {}
        for key, value in schema.items():
            if key not in _DROPPED:
                before = len(self.gaps)
                part = map_subschemas({key: value}, lambda inner: self.expand(inner, depth + 1))
                _join(rest, part if len(self.gaps) == before else _loosen(key, part))
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
            target = _find_target(self._root, ref)
        except _GapError as gap:
            self.gaps.append(f"refers to {printable_line(ref, 100)}, {gap}: this part is not checked")
            return {}
        check_document(target)
        self._open.append(ref)
        try:
            return self.expand(target, depth + 1)
        finally:
            self._open.pop()


def _find_target(root: dict[str, Any], ref: str) -> Any:
    """Return the target of a JSON pointer in a URI fragment (RFC 6901, section 6)."""
    found: Any = root
    for part in ref.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name[:6]) < len(found):
            found = found[int(name[:6])]
        else:
            raise _GapError("which does not exist")
    if not isinstance(found, (dict, bool)):
        raise _GapError("which is not a schema")
    return found
