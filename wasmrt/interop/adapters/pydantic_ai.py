"""pydantic-ai: a registry as a toolset of an agent, and tools of an agent as tools of a registry.

    agent = Agent(model, toolsets=[RegistryToolset(registry)], output_type=[str, DeferredToolRequests])

A call that needs a person ends the run with `DeferredToolRequests`; `metadata[tool_call_id]` says what is asked. The
run goes on with `DeferredToolResults`, and what a person was shown is what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from wasmrt.agent.approvals import ApprovalAnswer
from wasmrt.agent.registry import SchemaTool, ToolAnswer, ToolView
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, ToolError
from wasmrt.interop.adapters._bridge import Bridge, Declared, Named, answer_data, correctable, missing
from wasmrt.interop.adapters._questions import Answered, Ask, Question
from wasmrt.runtime.context import ToolContext

try:
    from pydantic import ValidationError
    from pydantic_ai import ApprovalRequired, ModelRetry, RunContext, Tool
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import ToolReturn
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_ai.usage import RunUsage
    from pydantic_core import SchemaValidator, core_schema
except ImportError as error:
    raise missing("pydantic-ai-slim>=2.60") from error

_ANY = SchemaValidator(core_schema.any_schema())


class RegistryToolset(AbstractToolset[Any]):
    """The current tools of a registry or view, at each step of a run.

    Attributes:
        view: The registry, or a view of it.
        user, trace: Whose calls they are, and in which conversation: a name, or a function of the `RunContext`.
        ask: `framework` defers a call that needs a person; `registry` has the registry's approver asked, as also where
            the operator's configuration names one.
        max_retries: Corrections of its arguments that a model gets for each call.
    """

    def __init__(
        self,
        view: ToolView,
        *,
        user: Named = "local",
        trace: Named = "",
        data: Any = None,
        ask: Ask = "framework",
        max_retries: int = 2,
        id: str | None = None,
    ) -> None:
        self._bridge = Bridge(view, "pydantic-ai", user=user, trace=trace, data=data, ask=ask)
        self._max_retries = max_retries
        self._id = id

    @property
    def id(self) -> str | None:
        """The id that durable execution names it by."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the current tools of the view."""
        return {
            each.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=each.name, description=each.description, parameters_json_schema=each.schema, strict=False
                ),
                max_retries=self._max_retries,
                args_validator=_ANY,
            )
            for each in self._bridge.definitions()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> ToolReturn[Any]:
        """Make a call through the registry's pipeline; cancelling it ends the tool.

        Raises:
            ApprovalRequired: a person has to approve it first.
            ModelRetry: its arguments do not fit, and the model can correct them.
            ToolFailed: it was refused, or the tool failed.
        """
        call_id = ctx.tool_call_id or ""
        if not ctx.tool_call_approved:
            question = self._bridge.question(name, tool_args, call_id, ctx)
            if question is not None:
                raise self._required(question)
            return _returned(await self._bridge.aanswer(name, tool_args, call_id=call_id, context=ctx))
        return await self._approved(name, tool_args, call_id, ctx)

    async def _approved(
        self, name: str, tool_args: dict[str, Any], call_id: str, ctx: RunContext[Any]
    ) -> ToolReturn[Any]:
        """Make a call that a person approved, maybe with other arguments, which they then chose themselves."""
        shown = self._bridge.shown
        came = ctx.tool_call_metadata if isinstance(ctx.tool_call_metadata, Mapping) else {}
        token, before = came.get("question"), came.get("parameters") or shown.params_of(call_id)
        question = self._bridge.question(name, tool_args, call_id, ctx)
        params, edited = tool_args, None
        if question is not None and not (shown.has(question) or question.is_meant_by(token)):
            asked = self._bridge.question(name, before, call_id, ctx) if isinstance(before, Mapping) else None
            if asked is None or not (shown.has(asked) or asked.is_meant_by(token)):
                raise self._required(question)  # it differs from the one that was shown
            params, edited = dict(asked.request.params), tool_args
        answer = ApprovalAnswer(approved=True, by=self._bridge.framework, way="framework", params=edited)
        approver = Answered(lambda now: shown.take(now) or now.is_meant_by(token), answer, call_id)
        return _returned(await self._bridge.aanswer(name, params, call_id=call_id, context=ctx, approver=approver))

    def _required(self, question: Question) -> ApprovalRequired:
        self._bridge.shown.add(question)
        return ApprovalRequired(question.as_dict())


def _returned(answer: ToolAnswer) -> ToolReturn[Any]:
    if answer.error is None:
        return ToolReturn(answer.text, metadata=answer_data(answer))
    raise (ModelRetry if correctable(answer) else ToolFailed)(answer.text) from answer.error


def tool_from(tool: Tool[Any], *, deps: Any = None, **declared: Unpack[Declared]) -> SchemaTool:
    """Return a function tool as a tool for a registry; without `effects` it counts as having all.

    One that takes a `RunContext` gets one of a run without messages, with `deps`.

    Raises:
        ConfigurationError: it is no tool of pydantic-ai, or cannot be one here.
    """
    if not isinstance(tool, Tool):
        raise ConfigurationError(f"{tool!r:.80} is no Tool of pydantic-ai", hint="wrap the function: Tool(function)")

    async def run(params: dict[str, Any], context: ToolContext) -> Any:
        ctx = RunContext(
            deps=deps, model=TestModel(), usage=RunUsage(), tool_name=tool.name, tool_call_id=context.call_id
        )
        try:
            arguments = tool.function_schema.validator.validate_python(params)
        except ValidationError as error:
            raise InvalidParametersError(_first(error)) from error
        try:
            result = await tool.function_schema.call(arguments, ctx)
        except ModelRetry as error:
            raise InvalidParametersError(error.message) from error
        except ToolFailed as error:
            raise ToolError(error.message) from error
        return result.return_value if isinstance(result, ToolReturn) else result

    if tool.timeout:
        declared["timeout_seconds"] = tool.timeout
    return SchemaTool(
        run, name=tool.name, description=tool.description or "", schema=tool.function_schema.json_schema,
        approval=tool.requires_approval, is_async=True, **declared,
    )  # fmt: skip


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
