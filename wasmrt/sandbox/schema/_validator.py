"""Validate params against a tool's JSON Schema, which is compiled on first use.

SECURITY: schemas come from guests. References are replaced by their targets before validation, the validator has no
network access, and patterns run on an engine without backtracking, in time linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs

from wasmrt.core.errors import InvalidComponentError, InvalidParametersError
from wasmrt.core.limits import KIB
from wasmrt.core.strict_json import JsonError, write_json
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema._coerce import coerce_value
from wasmrt.sandbox.schema._document import SchemaError, map_subschemas, read_schema
from wasmrt.sandbox.schema._patterns import estimate_compile_ns, iter_patterns
from wasmrt.sandbox.schema._problems import TOO_LARGE_PATTERN, oversized_problem, params_problem, pattern_problem
from wasmrt.sandbox.schema._references import inline_references
from wasmrt.sandbox.schema._wording import field_path
from wasmrt.sandbox.schema._work import (
    MAX_COERCE,
    MAX_COMPILE_NS,
    can_collect_errors,
    coerce_steps,
    compile_ns,
    has_choice,
    has_small_errors,
    size_of,
    takes_too_long,
    weigh,
)

_PATTERN_BYTES = 128 * KIB
"""Maximum size of a compiled pattern: enough for `[a-z]{1000}`, but not for nested repetitions."""
_FEW_PATTERNS_BYTES = 8 * _PATTERN_BYTES
"""Maximum size of a compiled pattern in a schema with few patterns: enough for `[^/\\s]{1,100}/[^/\\s]{1,100}`."""
_ALL_PATTERNS_BYTES = 16 * _FEW_PATTERNS_BYTES
_MAX_TRIED_PATTERNS = 32
_HINT = "send params that match the tool's schema; wasmrt inspect shows it"


def schema_problem(schema: str | Mapping[str, Any]) -> str | None:
    """Describe why a guest's schema (text or data) is invalid or over a limit; None if it can be used."""
    try:
        # Read twice: every call serializes and reads the data again, which can be longer than the guest's text.
        whole = inline_references(read_schema(read_schema(schema)))
        _compile(whole)
    except SchemaError as error:
        return f"the schema {error}"
    return None


def schema_gaps(schema: str | Mapping[str, Any]) -> tuple[str, ...]:
    """Describe the parts of a valid schema that are not checked because their references have no target."""
    gaps: set[str] = set()
    inline_references(read_schema(schema), gaps=gaps)
    return tuple(f"the schema {gap}" for gap in sorted(gaps))


def without_unusable_patterns(schema: str) -> str:
    """Return a schema without its patterns that cannot run in linear time, are too large, or are invalid.

    This is for worlds whose schema only describes the params. A schema with many patterns is returned unchanged.
    """
    try:
        data = read_schema(schema)
        if sum(1 for _ in iter_patterns(data)) > _MAX_TRIED_PATTERNS:
            return schema
        return write_json(_without_unusable_patterns(data))
    except (SchemaError, JsonError):
        return schema


def _without_unusable_patterns(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    changed = map_subschemas(schema, _without_unusable_patterns)
    pattern = changed.get("pattern")
    if isinstance(pattern, str) and schema_problem({"pattern": pattern}) is not None:
        del changed["pattern"]
    return changed


class Validator:
    """Checks params against a schema, which is compiled at the first check. Thread-safe."""

    __slots__ = ("_has_choice", "_is_valid", "_schema", "_source", "_validator", "_weight")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._source = schema
        self._is_valid: Callable[[Any], bool] | None = None

    def check(self, params: Any) -> None:
        """Check params without changing them.

        Raises:
            InvalidParametersError: the params do not match; the message lists the fields and errors.
            InvalidComponentError: the schema is invalid (call `schema_problem` first to avoid this).
        """
        try:
            if (self._is_valid or self._prepare())(params):
                return
            problem = self._problem(params)
        except ValueError as error:  # from jsonschema-rs: not JSON data, or nested too deeply
            raise InvalidParametersError(
                f"params are not JSON data: {printable_line(str(error), 120)}", hint=_HINT
            ) from None
        raise InvalidParametersError(problem, hint=_HINT)

    def accept(self, params: Any) -> Any:
        """Return the params if they match the schema; otherwise the result of `coerce`, if this result matches.

        Raises:
            InvalidParametersError, InvalidComponentError: see `check`.
        """
        try:
            if (self._is_valid or self._prepare())(params):
                return params
            changed = self._coerce(params)
        except (ValueError, RecursionError):
            changed = params  # not JSON data: `check` reports it
        self.check(changed)
        return changed

    def coerce(self, params: Any) -> Any:
        """Return the params with strings converted where this is unambiguous; see the function `coerce`."""
        try:
            return params if (self._is_valid or self._prepare())(params) else self._coerce(params)
        except (ValueError, RecursionError):
            return params  # not JSON data: `check` reports it

    def _coerce(self, params: Any) -> Any:
        is_too_large = coerce_steps(self._weight, size_of(params)) > MAX_COERCE
        return params if is_too_large else coerce_value(self._schema, params)

    def _prepare(self) -> Callable[[Any], bool]:
        try:
            self._schema = inline_references(read_schema(self._source))
            self._validator = _compile(self._schema)
        except SchemaError as error:
            hint = "ask the tool's author to fix it"
            raise InvalidComponentError(f"the tool's schema {error}", hint=hint) from None
        self._weight = weigh(self._schema)
        self._has_choice = has_choice(self._schema)
        self._is_valid = self._is_valid_within_bounds
        return self._is_valid

    def _is_valid_within_bounds(self, params: Any) -> bool:
        # SECURITY: the check is one C call that stops every other thread of the process.
        if takes_too_long(self._schema, self._weight, params):
            raise InvalidParametersError("the params are too large for a schema of this size", hint="send less data")
        return self._validator.is_valid(params)

    def _problem(self, params: Any) -> str:
        # SECURITY: the library collects all errors at once, including those of every branch, and each error has a copy
        # of the value.
        if can_collect_errors(self._weight, size_of(params)):
            return params_problem(self._validator.iter_errors(params), self._schema)
        if self._has_choice or not has_small_errors(self._schema, params):
            return oversized_problem(params, self._schema, lambda schema, value: _compile(schema).is_valid(value))
        try:
            self._validator.validate(params)
        except jsonschema_rs.ValidationError as error:
            return params_problem([error], self._schema)
        raise AssertionError("is_valid and validate disagree")


def coerce(schema: Mapping[str, Any], params: Any) -> Any:
    """Return the params with strings converted to the types that the schema requires, if this is unambiguous.

    If the schema allows no string, a string that is the JSON text of an allowed value (`"5"`, `"true"`, `"[1]"`)
    becomes that value. A null for an optional field that does not allow null is dropped. Valid params are returned as
    the same object; the params passed in are not modified. For repeated use, create a `Validator`.

    Raises:
        InvalidComponentError: the schema is invalid.
    """
    return Validator(schema).coerce(params)


def _refuse_reference(uri: str) -> Any:
    raise ValueError(f"references are not supported: {printable_line(uri, 100)}")


def _compile(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    if compile_ns(schema) > MAX_COMPILE_NS:
        for path, pattern in iter_patterns(schema):
            if estimate_compile_ns(pattern) > MAX_COMPILE_NS:
                raise SchemaError(_describe_pattern(TOO_LARGE_PATTERN, field_path(path), pattern))
        raise SchemaError("has too many parts and patterns to compile; use fewer or smaller ones")
    try:
        return _compile_checked(schema, sum(1 for _ in iter_patterns(schema)))
    except jsonschema_rs.ValidationError as error:
        raise SchemaError(_compile_problem(error)) from None
    except ValueError as error:
        raise SchemaError(f"cannot be compiled: {printable_line(str(error), 120)}") from None


def _compile_checked(schema: dict[str, Any], count: int) -> jsonschema_rs.Validator:
    """Compile a schema with `count` patterns in one C call, which holds the GIL."""
    # SECURITY: limits the total size of all automata, independent of the number of patterns.
    size = max(_PATTERN_BYTES, min(_FEW_PATTERNS_BYTES, _ALL_PATTERNS_BYTES // max(1, count)))
    return jsonschema_rs.validator_for(
        schema,
        validate_formats=False,
        retriever=_refuse_reference,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=size, dfa_size_limit=16 * _PATTERN_BYTES),
    )


def _compile_problem(error: jsonschema_rs.ValidationError) -> str:
    where, message = field_path(error.instance_path), printable_line(error.message, 160)
    if error.kind.name == "format" and isinstance(error.instance, str):
        return _describe_pattern(pattern_problem(error.instance), where, error.instance)
    return f"is invalid at {where or 'its top level'}: {message}"


def _describe_pattern(problem: str, where: str, pattern: str) -> str:
    return f"has {problem} (at {where}): {printable_line(pattern, 160)}"
