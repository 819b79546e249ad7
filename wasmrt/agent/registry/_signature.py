"""Derive a JSON Schema from the signature of a function, and convert JSON params to its arguments, with pydantic."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from wasmrt.core.errors import ConfigurationError, InvalidParametersError, ToolError
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema import size_of

if typing.TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_MAX_SHOWN_PROBLEMS = 3
_MAX_LISTED_PROBLEMS = 1_000
_MAX_VALUES = 110_000
"""Maximum number of values. One C call creates an error of 250 bytes for each value that is invalid."""
_HINT = "send the params of the tool's schema"


class Signature(NamedTuple):
    """The schema of a function, its description, and the adapters that convert params to arguments."""

    schema: dict[str, Any]
    description: str
    adapters: Mapping[str, TypeAdapter[Any]]
    context_param: str | None

    def arguments(self, params: Any, context: ToolContext) -> dict[str, Any]:
        """Convert params to arguments.

        Raises:
            InvalidParametersError: the params are invalid; the message names each invalid param and the reason.
        """
        from pydantic import ValidationError  # only needed with function tools

        if not isinstance(params, Mapping):
            raise InvalidParametersError("the params must be an object", hint=_HINT)
        if unknown := sorted(set(params) - self.adapters.keys()):
            raise InvalidParametersError(f"unknown param: {printable_line(unknown[0], 80)!r}", hint=_HINT)
        if size_of(dict(params)).values > _MAX_VALUES:
            raise InvalidParametersError(f"the params have over {_MAX_VALUES:,} values", hint="send less data")
        arguments, problems = {}, []
        for name, value in params.items():
            try:
                arguments[name] = self.adapters[name].validate_python(value)
            except ValidationError as error:
                problems += _describe_problems(name, error)
        if missing := [name for name in self.schema.get("required", ()) if name not in params]:
            problems.append(f"missing required field {missing[0]!r} in arguments")
        if problems:
            raise InvalidParametersError("; ".join(problems[:_MAX_SHOWN_PROBLEMS]), hint=_HINT)
        if self.context_param is not None:
            arguments[self.context_param] = context
        return arguments


def json_result(value: Any) -> Any:
    """Return a function's result as JSON data.

    Raises:
        ToolError: the value, for example an open file, cannot be converted.
    """
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolError(f"the tool's result is not JSON data: {printable_line(str(error), 120)}") from None


def read_signature(function: Callable[..., Any]) -> Signature:
    """Return the signature of a function.

    Raises:
        ConfigurationError: a parameter has no type, has a type that JSON cannot represent or that contains a type
            variable, or cannot be passed by name.
    """
    from docstring_parser import parse

    hints = _evaluate_hints(function)
    said = parse(inspect.getdoc(function) or "")
    words = {param.arg_name: " ".join((param.description or "").split()) for param in said.params}
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    required, adapters, context_param = [], {}, None
    for name, param in inspect.signature(function).parameters.items():
        if hints.get(name) is ToolContext:
            context_param = name
            continue
        if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD, param.POSITIONAL_ONLY):
            hint = "use parameters that can be passed by name"
            raise _parameter_error(function, name, "cannot be passed by name", hint)
        if name == "self" and name not in hints:
            raise _parameter_error(function, name, "belongs to a method", "decorate a function, or a bound method")
        if name not in hints:
            raise _parameter_error(function, name, "has no type", f"annotate it, for example {name}: str")
        if (variable := _find_type_variable(hints[name])) is not None:
            problem = f"has the type variable {variable}, which has no JSON Schema"
            hint = f"write the type that a model sends, for example {name}: str, or {name}: str | int"
            raise _parameter_error(function, name, problem, hint)
        adapter, schema = _describe_parameter(function, name, hints[name], definitions)
        if param.default is param.empty:
            required.append(name)
        elif (default := _to_json(param.default)) is not _NO_JSON:
            schema["default"] = default
        if words.get(name) and not schema.get("description"):
            schema["description"] = words[name]
        properties[name], adapters[name] = schema, adapter
    whole: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        whole["required"] = required
    if definitions:
        whole["$defs"] = definitions
    description = "\n\n".join(part for part in (said.short_description, said.long_description) if part)
    return Signature(whole, description, adapters, context_param)


def _evaluate_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"cannot evaluate the type hints of {_get_function_name(function)}: {printable_line(str(error), 120)}",
            hint="import the names of its annotations in the module that defines the function",
        ) from None


def _describe_parameter(
    function: Callable[..., Any], name: str, hint: Any, definitions: dict[str, Any]
) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic.errors import PydanticInvalidForJsonSchema

    try:
        adapter = TypeAdapter[Any](hint)
        schema = adapter.json_schema(ref_template=f"#/$defs/{name}.{{model}}")
    except (PydanticUserError, PydanticInvalidForJsonSchema) as error:
        reason = printable_line(str(error).splitlines()[0], 120)
        problem = f"cannot be described as JSON Schema: {reason}"
        raise _parameter_error(function, name, problem, "use types that JSON can represent") from None
    for inner, described in schema.pop("$defs", {}).items():
        definitions[f"{name}.{inner}"] = described
    schema.pop("title", None)
    return adapter, schema


def _find_type_variable(hint: Any) -> str | None:
    """Return the name of a type variable in a type, or None. Pydantic would accept any value for it."""
    if isinstance(hint, (typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple)):
        return hint.__name__
    generic: tuple[Any, ...] = typing.get_args(hint) or getattr(hint, "__parameters__", ())
    return next((found for part in generic if (found := _find_type_variable(part)) is not None), None)


_NO_JSON = object()


def _to_json(value: Any) -> Any:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError):
        return _NO_JSON


def _parameter_error(function: Callable[..., Any], name: str, problem: str, hint: str) -> ConfigurationError:
    return ConfigurationError(f"the parameter {name!r} of {_get_function_name(function)} {problem}", hint=hint)


def _get_function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _describe_problems(name: str, error: ValidationError) -> list[str]:
    if error.error_count() > _MAX_LISTED_PROBLEMS:  # a list of all would take far more memory than the params
        return [f"{printable_line(name, 120)}: {error.error_count():,} values do not match its type"]
    return [_describe_problem(name, one) for one in error.errors(include_url=False, include_input=False)]


def _describe_problem(name: str, error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in (name, *error["loc"]))
    return f"{printable_line(where, 120)}: {printable_line(error['msg'], 200)}"
