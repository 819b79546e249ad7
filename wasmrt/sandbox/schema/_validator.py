"""A tool's JSON Schema, compiled when first needed, and params checked against it.

SECURITY: schemas come from guests. References are written out before the validator sees them, the validator is
offline besides, and patterns run on an engine without backtracking, in time linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs

from wasmrt.core.errors import InvalidComponentError, InvalidParametersError
from wasmrt.core.limits import KIB
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema._coerce import coerced
from wasmrt.sandbox.schema._document import SchemaError, read_schema, subschemas
from wasmrt.sandbox.schema._patterns import pattern_problem
from wasmrt.sandbox.schema._problems import oversized_problem, params_problem
from wasmrt.sandbox.schema._references import inlined
from wasmrt.sandbox.schema._wording import field_path
from wasmrt.sandbox.schema._work import (
    LIGHT_SCHEMA,
    LIGHT_TEXT,
    MAX_CHECK,
    MAX_COERCE,
    MAX_WEIGHT,
    can_collect_errors,
    check_steps,
    coerce_steps,
    has_choice,
    size_of,
    weight,
)

_PATTERN_BYTES = 128 * KIB
"""A compiled pattern: room for `[a-z]{1000}`, none for one that repeats its repeats."""
_FEW_PATTERNS_BYTES = 8 * _PATTERN_BYTES
"""A pattern of a schema that has few of them: room for `[^/\\s]{1,100}/[^/\\s]{1,100}`, counted in characters."""
_ALL_PATTERNS_BYTES = 16 * _FEW_PATTERNS_BYTES
_HINT = "send the params that the tool's schema asks for; wasmrt inspect shows them"


def schema_problem(schema: str | Mapping[str, Any]) -> str | None:
    """Return in a sentence why a guest's schema (text or data) is broken or over a limit; None where it is neither."""
    try:
        # Read twice: a call reads the data again, which may take more as text than the guest took.
        whole = inlined(read_schema(read_schema(schema)))
        _compile(whole)
        if weight(whole).value > MAX_WEIGHT:
            raise SchemaError(f"takes over {MAX_WEIGHT:,} steps for each value")
    except SchemaError as error:
        return f"the schema {error}"
    return None


def schema_gaps(schema: str | Mapping[str, Any]) -> tuple[str, ...]:
    """Return in sentences which parts of a sound schema are not checked: those whose references lead nowhere."""
    gaps: set[str] = set()
    inlined(read_schema(schema), gaps=gaps)
    return tuple(f"the schema {gap}" for gap in sorted(gaps))


class Validator:
    """Checks params against one schema. Costs nothing until the first check; threads may share it."""

    __slots__ = ("_has_choice", "_is_valid", "_schema", "_source", "_validator", "_weight")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._source = schema
        self._is_valid: Callable[[Any], bool] | None = None

    def check(self, params: Any) -> None:
        """Check params as they are.

        Raises:
            InvalidParametersError: they do not fit; one line says where and why.
            InvalidComponentError: the schema itself is broken (`schema_problem` says so beforehand).
        """
        try:
            if (self._is_valid or self._compiled())(params):
                return
            problem = self._problem(params)
        except ValueError as error:  # of jsonschema-rs: not JSON data, or nested beyond what it reads
            raise InvalidParametersError(
                f"params are not JSON data: {printable_line(str(error), 120)}", hint=_HINT
            ) from None
        raise InvalidParametersError(problem, hint=_HINT)

    def accept(self, params: Any) -> Any:
        """Return the params, where they fit; else what `coerce` makes of them, where that fits.

        Raises:
            InvalidParametersError, InvalidComponentError: as `check`.
        """
        try:
            if (self._is_valid or self._compiled())(params):
                return params
            changed = self._reread(params)
        except (ValueError, RecursionError):
            changed = params  # not JSON data: `check` says so
        self.check(changed)
        return changed

    def coerce(self, params: Any) -> Any:
        """Return the params with what is unambiguously text for another type read as that type; see `coerce`."""
        try:
            return params if (self._is_valid or self._compiled())(params) else self._reread(params)
        except (ValueError, RecursionError):
            return params  # not JSON data: `check` says so

    def _reread(self, params: Any) -> Any:
        is_much = coerce_steps(self._weight, size_of(params)) > MAX_COERCE
        return params if is_much else coerced(self._schema, params)

    def _compiled(self) -> Callable[[Any], bool]:
        try:
            self._schema = inlined(read_schema(self._source))
            self._validator = _compile(self._schema)
        except SchemaError as error:
            raise InvalidComponentError(f"the tool's schema {error}", hint="the tool's author has to mend it") from None
        self._weight = weight(self._schema)
        self._has_choice = has_choice(self._schema)
        is_light = self._weight.value <= LIGHT_SCHEMA and self._weight.character <= LIGHT_TEXT
        self._is_valid = self._validator.is_valid if is_light else self._is_valid_within_bounds
        return self._is_valid

    def _is_valid_within_bounds(self, params: Any) -> bool:
        if check_steps(self._weight, size_of(params)) > MAX_CHECK:
            raise InvalidParametersError("the params are too large for a schema of this size", hint="send less at once")
        return self._validator.is_valid(params)

    def _problem(self, params: Any) -> str:
        # SECURITY: errors are collected all at once by the library, those of every branch included, and each holds
        # a copy of the value that failed.
        if can_collect_errors(self._weight, size_of(params)):
            return params_problem(self._validator.iter_errors(params), self._schema)
        if self._has_choice:
            return oversized_problem(params, self._schema, lambda schema, value: _compile(schema).is_valid(value))
        try:
            self._validator.validate(params)
        except ValueError as error:
            return params_problem([error], self._schema)  # type: ignore[list-item]  # is_valid said no: it is one
        raise AssertionError("is_valid and validate agree")


def coerce(schema: Mapping[str, Any], params: Any) -> Any:
    """Return the params with text read as what the schema wants, where only one reading exists and nothing is lost.

    A string where the schema takes no string, and that is the JSON text of a value it does take (`"5"`, `"true"`,
    `"[1]"`), becomes that value; a null for an optional field that takes none is dropped. Valid params come back
    as the same object. What was passed is not changed. To do this often, keep a `Validator`.

    Raises:
        InvalidComponentError: the schema is broken.
    """
    return Validator(schema).coerce(params)


def _refuse(uri: str) -> Any:
    raise ValueError(f"references are not followed: {printable_line(uri, 100)}")


def _compile(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    # SECURITY: however many patterns there are, their automata together stay within what few large ones take.
    size = max(_PATTERN_BYTES, min(_FEW_PATTERNS_BYTES, _ALL_PATTERNS_BYTES // max(1, _patterns(schema))))
    try:
        return jsonschema_rs.validator_for(
            schema,
            validate_formats=False,
            retriever=_refuse,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=size, dfa_size_limit=16 * _PATTERN_BYTES),
        )
    except jsonschema_rs.ValidationError as error:
        raise SchemaError(_broken(error)) from None
    except ValueError as error:
        raise SchemaError(f"cannot be compiled: {printable_line(str(error), 120)}") from None


def _patterns(schema: Any) -> int:
    """Count the patterns of a reference-free schema."""
    if not isinstance(schema, dict):
        return 0
    listed = schema.get("patternProperties")
    own = ("pattern" in schema) + (len(listed) if isinstance(listed, dict) else 0)
    return own + sum(_patterns(inner) for _, inner in subschemas(schema))


def _broken(error: jsonschema_rs.ValidationError) -> str:
    where, message = field_path(error.instance_path), printable_line(error.message, 160)
    if error.kind.name == "format" and isinstance(error.instance, str):
        return f"has {pattern_problem(error.instance)} (at {where}): {printable_line(error.instance, 160)}"
    return f"is broken at {where or 'its top'}: {message}"
