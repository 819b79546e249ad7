"""SchemaTool: a function that gets its params as one object, with the schema, name and words that somebody gave it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

from wasmrt.agent.registry._function import output_of, positive_seconds
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, InvalidParametersError
from wasmrt.core.model import ToolOutput
from wasmrt.core.names import is_offered_name, offered_name
from wasmrt.core.tool_defaults import ToolDefaults
from wasmrt.core.traits import Traits
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.schema import Validator
from wasmrt.sandbox.schema.providers import provider_schema

Run = Callable[[dict[str, Any], ToolContext], Any]
"""From params that fit the schema to the result, which may be awaitable."""


class SchemaTool(ToolDefaults):
    """A function behind a JSON Schema, such as a function tool of another framework, as a tool of a registry.

    Attributes:
        effects: Those that the function has, as a whole; `actions` those of each value of `action_param`. One that
            declares none is taken to have every effect.
        is_async: True where `run` returns something to be awaited; else it runs on a thread.
        approval: `True`, or a function of the params: a person is asked, whatever the effects say.

    Raises:
        ConfigurationError: its name is not one that a model can call.
        InvalidComponentError: its schema is broken.
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
        self.timeout_seconds = positive_seconds(timeout_seconds)
        self.is_async = is_async
        self._run = run
        self._approval = approval
        provider_schema(self.schema, "openai")  # what cannot be offered is refused where it is made
        self._validator = Validator(self.schema)

    def __repr__(self) -> str:
        return f"<SchemaTool {self.name!r}>"

    def requires_approval(self, params: Any) -> bool:
        """Tell whether a person has to approve this call, as whoever made the tool says."""
        return bool(self._approval(params)) if callable(self._approval) else self._approval

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput | Awaitable[ToolOutput]:
        """Call the function; the output of one that is asynchronous is to be awaited.

        Raises:
            InvalidParametersError: the params do not fit the schema.
            ToolError: the function raised it, or anything else, or its result is not JSON data.
        """
        if not isinstance(params, Mapping):
            raise InvalidParametersError(
                "the params must be an object", hint="send the params that the schema asks for"
            )
        fitting = self._validator.accept(dict(params))
        return output_of(self.name, partial(self._run, fitting, context or ToolContext()), is_async=self.is_async)
