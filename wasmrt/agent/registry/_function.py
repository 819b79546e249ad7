"""Python functions as tools. The schema is derived from the function's signature, or given by the caller."""

from __future__ import annotations

import functools
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import CodeType, MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from blake3 import blake3

from wasmrt.agent.registry._signature import Signature, json_result, read_signature
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, ToolError
from wasmrt.core.model import ToolOutput
from wasmrt.core.names import is_offered_name, offered_name
from wasmrt.core.tool_defaults import ToolDefaults
from wasmrt.core.traits import Traits
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.schema import Validator
from wasmrt.sandbox.schema.providers import provider_schema

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(ToolDefaults, Generic[P, R]):
    """A Python function as a tool. The object can also be called like the function.

    Raises:
        ConfigurationError: a parameter cannot be described in a schema, the declared actions do not match the schema,
            the name is not valid for models, or the description is empty.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        effects: Iterable[Effect | str] | None = None,
        actions: Mapping[str, Iterable[Effect | str]] | None = None,
        action_param: str = "action",
        timeout_seconds: float = 60.0,
        approval: bool | Callable[[dict[str, Any]], bool] = False,
        aliases: Iterable[str] = (),
        destinations: Iterable[str] | None = None,
        ids: Iterable[str] = (),
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._signature: Signature = read_signature(function)
        self.name: str = name or str(getattr(function, "__name__", "tool"))
        self.description = description if description is not None else self._signature.description
        self.schema: dict[str, Any] = self._signature.schema
        self.traits = Traits.of(effects, actions, action_param)
        self.timeout_seconds = check_timeout(timeout_seconds)
        self.aliases = tuple(aliases)
        self.destinations = None if destinations is None else tuple(destinations)
        self.ids = tuple(ids)
        self.is_async = inspect.iscoroutinefunction(function)
        self._approval = approval
        self.digest = _compute_code_digest(function, self.schema)
        if not is_offered_name(offered_name(self.name)) or not self.name.isprintable():
            raise ConfigurationError(f"{self.name!r:.80} cannot be a tool's name", hint="use letters, digits, - and _")
        if not self.description.strip():
            raise ConfigurationError(
                f"the tool {self.name!r} has no description, so a model cannot know when to call it",
                hint='write a docstring, for example """Search the web.""", or pass description="..."',
            )
        _check_actions(self)
        _check_destinations(self)
        provider_schema(self.schema, "openai")  # report unsupported schemas at the definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly, without any checks."""
        return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return a bound method if the decorated function is a method of a class. A bound method is not a tool."""
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name!r}>"

    def requires_approval(self, params: Any) -> bool:
        """Return whether this call requires approval, according to the tool's author."""
        if not callable(self._approval):
            return self._approval
        defaults = {name: part["default"] for name, part in self.schema["properties"].items() if "default" in part}
        return bool(self._approval(defaults | params))

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput | Awaitable[ToolOutput]:
        """Call the function with JSON params. The result is awaitable if the function is asynchronous.

        Raises:
            InvalidParametersError: the params do not match the types of the function.
            ToolError: the function failed, or its result is not JSON data.
        """
        arguments = self._signature.arguments(params, context or ToolContext())
        run: Callable[[], Any] = functools.partial(self._function, **arguments)
        return call_function(self.name, run, is_async=self.is_async)


@overload
def tool(function: Callable[P, R]) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Iterable[Effect | str] | None = None,
    actions: Mapping[str, Iterable[Effect | str]] | None = None,
    action_param: str = "action",
    timeout_seconds: float = 60.0,
    approval: bool | Callable[[dict[str, Any]], bool] = False,
    aliases: Iterable[str] = (),
    destinations: Iterable[str] | None = None,
    ids: Iterable[str] = (),
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """Create a tool from a function: `@tool`, or `@tool(effects=["network"])`.

    The schema is derived from the type hints; the descriptions are taken from the docstring (Google, NumPy or Sphinx
    style). A parameter with the type `ToolContext` receives the context of the call and is not part of the schema.

    `effects` are the effects of the function. By default, these are all effects, so that every call requires approval.
    `actions` declares the effects of each value of the parameter named `action_param`, whose type must be a `Literal`
    or an enum. `approval=True` requires approval of every call; if `approval` is a function, it is called with the
    params and decides. `destinations` are the parameters that determine where data goes or which data is changed.
    `ids` are the parameters, of any tool, that accept identifiers from this tool's results.

    Raises:
        ConfigurationError: the function cannot be a tool.

    Examples:
        >>> from wasmrt import tool
        >>> @tool(effects=["network"])
        ... def search(query: str, limit: int = 10) -> list[str]:
        ...     "Search the web."
        ...     return []
        >>> search.name, sorted(search.schema["properties"])
        ('search', ['limit', 'query'])
    """
    if function is not None:
        return FunctionTool(function, **settings)
    return lambda decorated: FunctionTool(decorated, **settings)


def _check_destinations(made: FunctionTool[Any, Any]) -> None:
    unknown = [name for name in made.destinations or () if name.partition(".")[0] not in made.schema["properties"]]
    if unknown:
        hint = "destinations must be parameters of the function"
        raise ConfigurationError(f"{made.name} has no parameter {unknown[0]!r}", hint=hint)


def _check_actions(made: FunctionTool[Any, Any]) -> None:
    """Check that the declared actions are the actions of the schema, so that errors are reported at the definition."""
    if not made.traits.actions:
        return
    param = made.traits.action_param
    declared = {action.name for action in made.traits.actions}
    offered = action_names(made.schema, param)
    if offered is None:
        raise ConfigurationError(
            f"{made.name} declares actions, but its parameter {param!r} has no list of values",
            hint=f"annotate {param} as Literal[...] of the actions",
        )
    if declared != set(offered):
        missing, extra = sorted(set(offered) - declared), sorted(declared - set(offered))
        problems = [f"no effects for {', '.join(missing)}"] if missing else []
        problems += [f"no action {', '.join(extra)}"] if extra else []
        hint = "declare the effects of each action once"
        raise ConfigurationError(f"{made.name}: {' and '.join(problems)}", hint=hint)


def action_names(schema: Mapping[str, Any], param: str) -> tuple[str, ...] | None:
    """Return the values that a schema lists for a parameter, or None if it lists no values."""
    found = schema.get("properties", {}).get(param)
    if isinstance(found, Mapping) and "$ref" in found:
        found = schema.get("$defs", {}).get(str(found["$ref"]).rpartition("/")[2])
    if not isinstance(found, Mapping):
        return None
    if isinstance(found.get("const"), str):
        return (found["const"],)
    values = found.get("enum")
    return tuple(values) if isinstance(values, list) and all(isinstance(value, str) for value in values) else None


def call_function(name: str, run: Callable[[], Any], *, is_async: bool) -> ToolOutput | Awaitable[ToolOutput]:
    """Call a function, and return its result as a tool output; return an awaitable if `is_async` is true.

    Raises:
        ToolError: the function failed, or its result is not JSON data.
    """
    started = time.monotonic()
    if is_async:
        return _await_result(name, run, started)
    try:
        result = run()
    except (Exception, SystemExit) as error:  # argparse, for example, raises SystemExit
        raise _to_tool_error(name, error) from error
    return _to_output(result, started)


async def _await_result(name: str, run: Callable[[], Any], started: float) -> ToolOutput:
    try:
        result = await run()
    except (Exception, SystemExit) as error:
        raise _to_tool_error(name, error) from error
    return _to_output(result, started)


def _to_output(result: Any, started: float) -> ToolOutput:
    if isinstance(result, ToolOutput):
        return result
    return ToolOutput(result=json_result(result), duration=time.monotonic() - started)


def _to_tool_error(name: str, error: BaseException) -> ToolError:
    """Convert an exception of a function to a `ToolError`."""
    if isinstance(error, ToolError):
        return error
    # The message of an exception often helps the model, for example if something was not found.
    text = str(error).strip()
    message = f"{type(error).__name__}: {text}" if isinstance(error, (KeyError, SystemExit)) or not text else text
    return ToolError(f"{name} failed: {message}", hint=None)


def check_timeout(seconds: float) -> float:
    """Check a timeout in seconds, and return it as a float.

    Raises:
        ConfigurationError: the timeout is not a positive number, or is longer than a day.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= 86_400:
        raise ConfigurationError("timeout_seconds must be a number of seconds up to a day")
    return float(seconds)


def _compute_code_digest(function: Callable[..., Any], schema: Mapping[str, Any]) -> str:
    """Return a digest of a function's code, so that an approval does not apply to another version of the function.

    SECURITY: bound methods, closures and wrapped functions do not depend on their code alone. Their digest is an empty
    string, for which no answer is ever remembered.
    """
    code = getattr(function, "__code__", None)
    bound = hasattr(function, "__self__") or hasattr(function, "__wrapped__") or getattr(function, "__closure__", None)
    if code is None or bound:
        return ""
    parts = (function.__module__, function.__qualname__, json.dumps(schema, sort_keys=True, default=repr))
    return blake3("\n".join(parts).encode() + code.co_code + repr(_list_constants(code)).encode()).hexdigest()


def _list_constants(code: Any) -> tuple[Any, ...]:
    return (*code.co_names, *(_normalize_constant(const) for const in code.co_consts))


def _normalize_constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return (value.co_code, _list_constants(value))
    # The order of a set differs from process to process.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


Run = Callable[[dict[str, Any], ToolContext], Any]
"""A function that takes validated params and the context, and returns the result or an awaitable."""


class SchemaTool(ToolDefaults):
    """A tool made of a function and its JSON Schema, such as a function tool of another framework.

    Attributes:
        effects: The effects of the function; by default, all effects.
        actions: The effects of each value of the parameter named `action_param`.
        is_async: True if `run` returns an awaitable. Otherwise, `run` is called in a thread.
        approval: True to require approval of every call, or a function that decides by the params.

    Raises:
        ConfigurationError: the name is not valid for models.
        InvalidComponentError: the schema is invalid.
    """

    def __init__(
        self,
        run: Run,
        *,
        name: str,
        description: str,
        schema: Mapping[str, Any],
        effects: Iterable[Effect | str] | None = None,
        actions: Mapping[str, Iterable[Effect | str]] | None = None,
        action_param: str = "action",
        timeout_seconds: float = 60.0,
        approval: bool | Callable[[dict[str, Any]], bool] = False,
        is_async: bool = False,
    ) -> None:
        if not isinstance(name, str) or not name.isprintable() or not is_offered_name(offered_name(name)):
            raise ConfigurationError(f"{name!r:.80} cannot be a tool's name", hint="use letters, digits, - and _")
        self.name = name
        self.description = description
        self.schema: dict[str, Any] = {"type": "object", "properties": {}, **schema}
        self.traits = Traits.of(effects, actions, action_param)
        self.timeout_seconds = check_timeout(timeout_seconds)
        self.is_async = is_async
        self._run = run
        self._approval = approval
        provider_schema(self.schema, "openai")  # report unsupported schemas at the definition
        self._validator = Validator(self.schema)

    def __repr__(self) -> str:
        return f"<SchemaTool {self.name!r}>"

    def requires_approval(self, params: Any) -> bool:
        """Return whether this call requires approval, according to the tool's author."""
        return bool(self._approval(params)) if callable(self._approval) else self._approval

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput | Awaitable[ToolOutput]:
        """Call the function. The result is awaitable if the function is asynchronous.

        Raises:
            InvalidParametersError: the params do not match the schema.
            ToolError: the function failed, or its result is not JSON data.
        """
        if not isinstance(params, Mapping):
            raise InvalidParametersError("the params must be an object", hint="send the params of the tool's schema")
        fitting = self._validator.accept(dict(params))
        return call_function(self.name, partial(self._run, fitting, context or ToolContext()), is_async=self.is_async)
