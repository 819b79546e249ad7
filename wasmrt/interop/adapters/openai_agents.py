"""The OpenAI Agents SDK: a registry's tools as function tools of an agent, and function tools for a registry.

    agent = Agent("helper", tools=tools_for(registry))

A call that requires approval interrupts the run: see `result.interruptions`, call `state.approve(item)`, and resume.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, Unpack

from wasmrt.agent.approvals import ApprovalAnswer
from wasmrt.agent.registry import SchemaTool, ToolView
from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.adapters._bridge import (
    Definition,
    FrameworkBridge,
    NameOrFunction,
    ToolDeclaration,
    answer_data,
    missing_framework_error,
)
from wasmrt.interop.adapters._questions import Ask, FrameworkApprover, Question
from wasmrt.runtime.context import ToolContext

try:
    from agents import FunctionTool, RunContextWrapper
    from agents.tool import FunctionToolCustomDataContext
    from agents.tool_context import ToolContext as AgentToolContext
except ImportError as error:
    raise missing_framework_error("openai-agents>=0.20") from error

_DATA = "_wasmrt_data"


def tools_for(
    view: ToolView,
    *,
    user: NameOrFunction = "local",
    trace: NameOrFunction = "",
    data: Any = None,
    ask: Ask = "framework",
) -> list[FunctionTool]:
    """Return the tools of a registry or view for `Agent(tools=...)`.

    `user` and `trace` are names, or functions that receive the `RunContextWrapper` and return the name. With
    `ask="framework"`, a call that requires approval interrupts the run. With `ask="registry"`, or if the operator
    configured an approver, the registry's approver decides. The `custom_data` of a call's output item contains the
    metadata of the call.
    """
    bridge = FrameworkBridge(view, "openai-agents", user=user, trace=trace, data=data, ask=ask)
    return [_make_function_tool(bridge, each) for each in bridge.definitions()]


def _make_function_tool(bridge: FrameworkBridge, definition: Definition) -> FunctionTool:
    name = definition.name

    async def needs_approval(context: RunContextWrapper[Any], params: dict[str, Any], call_id: str) -> bool:
        question = bridge.question(name, params, call_id, context)
        if question is not None:
            bridge.shown.add(question)
        return question is not None

    async def invoke(context: AgentToolContext[Any], arguments: str) -> str:
        call_id = context.tool_call_id
        # The SDK invokes a call that requires approval only after it was approved.
        given = ApprovalAnswer(approved=True, by=bridge.framework, way="framework")
        always = context.is_tool_approved(name, secrets.token_hex()) is True  # the user approved all calls of the tool

        def fits(question: Question) -> bool:
            return bridge.shown.take(question) or (always and bridge.shown.was_answered(question))

        approver = FrameworkApprover(fits, given, call_id) if bridge.asks_framework else None
        answer = await bridge.aanswer(name, arguments, call_id=call_id, context=context, approver=approver)
        setattr(context, _DATA, answer_data(answer))
        return answer.text

    def custom_data(context: FunctionToolCustomDataContext) -> dict[str, Any] | None:
        return getattr(context.tool_context, _DATA, None)

    return FunctionTool(
        name=name, description=definition.description, params_json_schema=definition.schema, on_invoke_tool=invoke,
        strict_json_schema=False, needs_approval=needs_approval if bridge.asks_framework else False,
        custom_data_extractor=custom_data,
    )  # fmt: skip


def tool_from(tool: object, *, context: Any = None, **declared: Unpack[ToolDeclaration]) -> SchemaTool:
    """Return a function tool of the SDK as a tool for a registry. Without `effects`, the tool has all effects.

    `context` is passed to the tool as the context of its run. If the tool's `needs_approval` is True or a function,
    every call requires approval.

    Raises:
        ConfigurationError: `tool` is not a function tool of the SDK, or its definition is invalid.
    """
    if not isinstance(tool, FunctionTool):
        problem = f"expected a FunctionTool of the Agents SDK, got {tool!r:.80}"
        raise ConfigurationError(problem, hint="decorate the function with @function_tool")

    async def run(params: dict[str, Any], own: ToolContext) -> Any:
        text = json.dumps(params)
        run_context = AgentToolContext(context, tool_name=tool.name, tool_call_id=own.call_id, tool_arguments=text)
        return await tool.on_invoke_tool(run_context, text)

    if tool.timeout_seconds:
        declared["timeout_seconds"] = tool.timeout_seconds
    return SchemaTool(
        run, name=tool.name, description=tool.description, schema=tool.params_json_schema,
        approval=tool.needs_approval is not False, is_async=True, **declared,
    )  # fmt: skip
