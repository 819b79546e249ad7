"""LangChain: a registry's tools for a chain or an agent, and LangChain tools for a registry.

    model.bind_tools(tools_for(registry))

The registry's approver decides about calls that require approval. For graphs, `wasmrt.adapters.langgraph` requests
approvals by interrupts.
"""

from __future__ import annotations

import inspect
from typing import Any, Unpack

from wasmrt.agent.registry import SchemaTool, ToolAnswer, ToolView
from wasmrt.core.errors import ConfigurationError, ToolError
from wasmrt.interop.adapters._bridge import (
    FrameworkBridge,
    NameOrFunction,
    ToolDeclaration,
    answer_data,
    missing_framework_error,
)
from wasmrt.runtime.context import ToolContext

try:
    from langchain_core.runnables.config import ensure_config
    from langchain_core.tools import BaseTool, ToolException
except ImportError as error:
    raise missing_framework_error("langchain-core>=1.4") from error


class RegistryTool(BaseTool):
    """A registry's tool. The message's `artifact` has metadata of the call; a failure has the status `error`."""

    bridge: FrameworkBridge

    def __init__(self, **fields: Any) -> None:
        super().__init__(response_format="content_and_artifact", handle_tool_error=True, **fields)

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Two arguments, so that tool parameters cannot collide with parameters that the framework fills.
        return (tool_call_id or "", tool_input), {}

    def _run(self, call_id: str, params: Any) -> tuple[str, dict[str, Any]]:
        return content(self.bridge.answer(self.name, params, call_id=call_id, context=ensure_config()))

    async def _arun(self, call_id: str, params: Any) -> tuple[str, dict[str, Any]]:
        return content(await self.bridge.aanswer(self.name, params, call_id=call_id, context=ensure_config()))


def content(answer: ToolAnswer) -> tuple[str, dict[str, Any]]:
    """Return the text for the model and the artifact of a call's message.

    Raises:
        ToolException: the call failed, with the text for the model.
    """
    if answer.error is not None:
        raise ToolException(answer.text)
    return answer.text, answer_data(answer)


def tools_for(
    view: ToolView, *, user: NameOrFunction = "local", trace: NameOrFunction = "", data: Any = None
) -> list[RegistryTool]:
    """Return the tools of a registry or view; `user` and `trace` are names, or functions of the `RunnableConfig`."""
    bridge = FrameworkBridge(view, "langchain", user=user, trace=trace, data=data)
    return [
        RegistryTool(name=each.name, description=each.description, args_schema=each.schema, bridge=bridge)
        for each in bridge.definitions()
    ]


def tool_from(tool: BaseTool, **declared: Unpack[ToolDeclaration]) -> SchemaTool:
    """Return a LangChain tool as a tool for a registry; without `effects` it has all effects.

    Raises:
        ConfigurationError: the tool is not a LangChain tool, or its definition is invalid.
    """
    if not isinstance(tool, BaseTool):
        raise ConfigurationError(
            f"expected a LangChain tool, got {tool!r:.80}", hint="decorate the function with LangChain's @tool"
        )
    described = tool.tool_call_schema
    schema = described if isinstance(described, dict) else _get_schema(described)

    async def run(params: dict[str, Any], context: ToolContext) -> Any:
        try:
            message = await tool.ainvoke(
                {"type": "tool_call", "id": context.call_id, "name": tool.name, "args": params}
            )
        except ToolException as error:
            raise ToolError(str(error)) from error
        if getattr(message, "status", "success") == "error":
            raise ToolError(message.text)
        return getattr(message, "content", message)

    return SchemaTool(
        run, name=tool.name, description=inspect.cleandoc(tool.description), schema=schema, is_async=True, **declared,
    )  # fmt: skip


def _get_schema(model: Any) -> dict[str, Any]:
    """Return the JSON Schema of a pydantic model, of version 1 or 2."""
    found: dict[str, Any] = model.model_json_schema() if hasattr(model, "model_json_schema") else model.schema()
    return found
