"""Anthropic's tool runner: a registry's tools for the runner, and its function tools for a registry.

    runner = client.beta.messages.tool_runner(tools=tools_for(registry), model=..., max_tokens=..., messages=[...])

The registry's approver decides about calls that require approval; without an answer the model receives an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from wasmrt.agent.registry import SchemaTool, ToolAnswer, ToolView
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, ToolError
from wasmrt.interop.adapters._bridge import FrameworkBridge, ToolDeclaration, missing_framework_error
from wasmrt.runtime.context import ToolContext

try:
    from anthropic.lib.tools import (
        BetaAsyncBuiltinFunctionTool,
        BetaAsyncFunctionTool,
        BetaBuiltinFunctionTool,
        BetaFunctionTool,
    )
    from anthropic.lib.tools import ToolError as RunnerToolError
except ImportError as error:
    raise missing_framework_error("anthropic>=2") from error


class _Tool:
    """The definition of a registry's tool."""

    def __init__(self, bridge: FrameworkBridge, definition: dict[str, Any]) -> None:
        self._bridge = bridge
        self._definition = definition

    def to_dict(self) -> Any:
        return self._definition


class _RegistryTool(_Tool, BetaBuiltinFunctionTool):
    """A registry's tool for a synchronous client."""

    def call(self, input: object) -> str:
        return _get_text(self._bridge.answer(self.name, input))


class _AsyncRegistryTool(_Tool, BetaAsyncBuiltinFunctionTool):
    """A registry's tool for an asynchronous client."""

    async def call(self, input: object) -> str:
        return _get_text(await self._bridge.aanswer(self.name, input))


def _get_text(answer: ToolAnswer) -> str:
    if answer.error is not None:
        raise RunnerToolError(answer.text) from answer.error
    return answer.text


def tools_for(
    view: ToolView, *, user: str = "local", trace: str = "", data: Any = None
) -> list[BetaBuiltinFunctionTool]:
    """Return the tools of a registry or view for the tool runner of an `Anthropic` client."""
    bridge = FrameworkBridge(view, "anthropic", user=user, trace=trace, data=data)
    return [_RegistryTool(bridge, each) for each in view.definitions("anthropic")]


def async_tools_for(
    view: ToolView, *, user: str = "local", trace: str = "", data: Any = None
) -> list[BetaAsyncBuiltinFunctionTool]:
    """Return the tools of a registry or view for the tool runner of an `AsyncAnthropic` client."""
    bridge = FrameworkBridge(view, "anthropic", user=user, trace=trace, data=data)
    return [_AsyncRegistryTool(bridge, each) for each in view.definitions("anthropic")]


def tool_from(
    tool: BetaFunctionTool[Any] | BetaAsyncFunctionTool[Any], **declared: Unpack[ToolDeclaration]
) -> SchemaTool:
    """Return a `@beta_tool` function as a tool for a registry; without `effects` it has all effects.

    Raises:
        ConfigurationError: the function is not a `@beta_tool` function, or its definition is invalid.
    """
    if not isinstance(tool, (BetaFunctionTool, BetaAsyncFunctionTool)):
        raise ConfigurationError(
            f"expected a tool of Anthropic's runner, got {tool!r:.80}", hint="decorate the function with @beta_tool"
        )
    is_async = isinstance(tool, BetaAsyncFunctionTool)

    def run(params: dict[str, Any], _: ToolContext) -> Any:
        if isinstance(tool, BetaAsyncFunctionTool):
            return _call_async(tool, params)
        try:
            return _to_content(tool.call(params))
        except Exception as error:
            raise _make_failure(error) from error

    return SchemaTool(
        run, name=tool.name, description=tool.description, schema=tool.input_schema, is_async=is_async, **declared,
    )  # fmt: skip


async def _call_async(tool: BetaAsyncFunctionTool[Any], params: dict[str, Any]) -> Any:
    try:
        return _to_content(await tool.call(params))
    except Exception as error:
        raise _make_failure(error) from error


def _to_content(result: Any) -> Any:
    return result if isinstance(result, str) or not isinstance(result, Iterable) else list(result)


def _make_failure(error: Exception) -> Exception:
    if isinstance(error, ValueError) and error.__cause__ is not None:  # the runner's error for invalid arguments
        return InvalidParametersError(str(error))
    return ToolError(str(error)) if isinstance(error, RunnerToolError) else error
