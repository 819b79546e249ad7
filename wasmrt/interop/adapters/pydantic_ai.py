"""pydantic-ai: a registry as a toolset of an agent, and pydantic-ai tools for a registry.

    agent = Agent(model, toolsets=[RegistryToolset(registry)], output_type=[str, DeferredToolRequests])

A call that requires approval ends the run with `DeferredToolRequests`; `metadata[tool_call_id]` is the question. Pass
`DeferredToolResults` to continue. An approval is valid only for the shown call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from wasmrt.agent.approvals import ApprovalAnswer
from wasmrt.agent.registry import SchemaTool, ToolAnswer, ToolView
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, ToolError
from wasmrt.interop.adapters._bridge import (
    FrameworkBridge,
    NameOrFunction,
    ToolDeclaration,
    answer_data,
    is_correctable,
    missing_framework_error,
)
from wasmrt.interop.adapters._questions import Ask, FrameworkApprover, Question
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
    raise missing_framework_error("pydantic-ai-slim>=2.60") from error

_ANY = SchemaValidator(core_schema.any_schema())


class RegistryToolset(AbstractToolset[Any]):
    """The current tools of a registry or view, at each step of a run.

    Attributes:
        view: The registry, or a view of it.
        user, trace: The user and the conversation of the calls: names, or functions of the `RunContext`.
        ask: With `framework`, a call that requires approval is deferred. With `registry`, or if the operator configured
            an approver, the registry's approver decides.
        max_retries: How often a model may correct the arguments of a call.
    """

    def __init__(
        self,
        view: ToolView,
        *,
        user: NameOrFunction = "local",
        trace: NameOrFunction = "",
        data: Any = None,
        ask: Ask = "framework",
        max_retries: int = 2,
        id: str | None = None,
    ) -> None:
        self._bridge = FrameworkBridge(view, "pydantic-ai", user=user, trace=trace, data=data, ask=ask)
        self._max_retries = max_retries
        self._id = id

    @property
    def id(self) -> str | None:
        """The ID of the toolset for durable execution."""
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
            ApprovalRequired: the call requires approval.
            ModelRetry: the arguments are invalid, and the model can correct them.
            ToolFailed: the call was refused, or the tool failed.
        """
        call_id = ctx.tool_call_id or ""
        if not ctx.tool_call_approved:
            question = self._bridge.question(name, tool_args, call_id, ctx)
            if question is not None:
                raise self._show_question(question)
            return _make_tool_return(await self._bridge.aanswer(name, tool_args, call_id=call_id, context=ctx))
        return await self._call_approved(name, tool_args, call_id, ctx)

    async def _call_approved(
        self, name: str, tool_args: dict[str, Any], call_id: str, ctx: RunContext[Any]
    ) -> ToolReturn[Any]:
        """Make a call that a user approved, possibly with arguments that the user changed."""
        shown = self._bridge.shown
        metadata = ctx.tool_call_metadata if isinstance(ctx.tool_call_metadata, Mapping) else {}
        token, before = metadata.get("question"), metadata.get("parameters") or shown.params_of(call_id)
        question = self._bridge.question(name, tool_args, call_id, ctx)
        params, edited = tool_args, None
        if question is not None and not (shown.has(question) or question.is_meant_by(token)):
            asked = self._bridge.question(name, before, call_id, ctx) if isinstance(before, Mapping) else None
            if asked is None or not (shown.has(asked) or asked.is_meant_by(token)):
                raise self._show_question(question)  # the question differs from the shown one
            params, edited = dict(asked.request.params), tool_args
        answer = ApprovalAnswer(approved=True, by=self._bridge.framework, way="framework", params=edited)
        approver = FrameworkApprover(lambda now: shown.take(now) or now.is_meant_by(token), answer, call_id)
        return _make_tool_return(
            await self._bridge.aanswer(name, params, call_id=call_id, context=ctx, approver=approver)
        )

    def _show_question(self, question: Question) -> ApprovalRequired:
        self._bridge.shown.add(question)
        return ApprovalRequired(question.as_dict())


def _make_tool_return(answer: ToolAnswer) -> ToolReturn[Any]:
    if answer.error is None:
        return ToolReturn(answer.text, metadata=answer_data(answer))
    raise (ModelRetry if is_correctable(answer) else ToolFailed)(answer.text) from answer.error


def tool_from(tool: Tool[Any], *, deps: Any = None, **declared: Unpack[ToolDeclaration]) -> SchemaTool:
    """Return a function tool as a tool for a registry; without `effects` it has all effects.

    A tool that takes a `RunContext` receives one with `deps` and without messages.

    Raises:
        ConfigurationError: the tool is not a pydantic-ai tool, or its definition is invalid.
    """
    if not isinstance(tool, Tool):
        raise ConfigurationError(
            f"expected pydantic_ai.Tool, got {tool!r:.80}", hint="wrap the function: Tool(function)"
        )

    async def run(params: dict[str, Any], context: ToolContext) -> Any:
        ctx = RunContext(
            deps=deps, model=TestModel(), usage=RunUsage(), tool_name=tool.name, tool_call_id=context.call_id
        )
        try:
            arguments = tool.function_schema.validator.validate_python(params)
        except ValidationError as error:
            raise InvalidParametersError(_get_first_error(error)) from error
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


def _get_first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
