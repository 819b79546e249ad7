"""A tool's JSON Schema, compiled when first needed, and params checked against it.

SECURITY: schemas come from guests. References are written out before the validator sees them, the validator is
offline besides, and patterns run on an engine without backtracking, in time linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wasmrt.engine import plain
from wasmrt.errors import InvalidComponentError, InvalidParametersError
from wasmrt.limits import KIB
from wasmrt.schema._coerce import coerced
from wasmrt.schema._inline import SchemaError, inlined, read_schema
from wasmrt.schema._problems import params_problem
from wasmrt.schema._words import field_path

if TYPE_CHECKING:
    import jsonschema_rs

_PATTERN_BYTES = 128 * KIB
"""A compiled pattern: room for `[a-z]{1000}`, none for one that repeats its repeats."""
_HINT = "send the params that the tool's schema asks for"


def schema_problem(schema: str | Mapping[str, Any]) -> str | None:
    """Why a guest's schema (text or data) is broken or over a limit, in one sentence; None where it can be used."""
    try:
        _compile(inlined(read_schema(schema)))
    except SchemaError as error:
        return f"the schema {error}"
    return None


class Validator:
    """Checks params against one schema. Costs nothing until the first check; threads may share it."""

    __slots__ = ("_is_valid", "_iter_errors", "_schema", "_source")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._source = schema
        self._schema: dict[str, Any] = {}
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
            problem = params_problem(self._iter_errors(params), self._schema)
        except ValueError as error:  # of jsonschema-rs: not JSON data, or nested beyond what it reads
            raise InvalidParametersError(f"params are not JSON data: {plain(str(error), 120)}", hint=_HINT) from None
        raise InvalidParametersError(problem, hint=_HINT)

    def accept(self, params: Any) -> Any:
        """The params, where they fit; else what `coerce` makes of them, where that fits.

        Raises:
            InvalidParametersError, InvalidComponentError: as `check`.
        """
        try:
            if (self._is_valid or self._compiled())(params):
                return params
        except ValueError:
            pass  # not JSON data: `check` says so
        changed = self.coerce(params)
        self.check(changed)
        return changed

    def coerce(self, params: Any) -> Any:
        """The params with what is unambiguously text for another type read as that type; see `coerce`."""
        try:
            if (self._is_valid or self._compiled())(params):
                return params
            return coerced(self._schema, params)
        except (ValueError, RecursionError):
            return params  # not JSON data: `check` says so

    def _compiled(self) -> Callable[[Any], bool]:
        try:
            self._schema = inlined(read_schema(self._source))
            validator = _compile(self._schema)
        except SchemaError as error:
            raise InvalidComponentError(f"the tool's schema {error}", hint="the tool's author has to mend it") from None
        self._iter_errors = validator.iter_errors
        self._is_valid = validator.is_valid
        return validator.is_valid


def coerce(schema: Mapping[str, Any], params: Any) -> Any:
    """The params with text read as what the schema wants, where only one reading exists and nothing is lost.

    A string where the schema takes no string, and that is the JSON text of a value it does take (`"5"`, `"true"`,
    `"[1]"`), becomes that value; a null for an optional field that takes none is dropped. Valid params come back
    as the same object. What was passed is not changed. To do this often, keep a `Validator`.

    Raises:
        InvalidComponentError: the schema is broken.
    """
    return Validator(schema).coerce(params)


def _refuse(uri: str) -> Any:
    raise ValueError(f"references are not followed: {plain(uri, 100)}")


def _compile(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(
            schema,
            validate_formats=False,
            retriever=_refuse,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=16 * _PATTERN_BYTES),
        )
    except jsonschema_rs.ValidationError as error:
        raise SchemaError(_broken(error)) from None
    except ValueError as error:
        raise SchemaError(f"cannot be compiled: {plain(str(error), 120)}") from None


def _broken(error: jsonschema_rs.ValidationError) -> str:
    where = field_path(error.instance_path)
    if error.kind.name == "format":
        return f"has a pattern that is broken or cannot run in linear time (at {where}): {plain(error.message, 100)}"
    return f"is broken at {where or 'its top'}: {plain(error.message, 160)}"
