"""Anthropic's tool runner: a registry's tools for it, and its function tools as tools of a registry.

    runner = client.beta.messages.tool_runner(tools=tools_for(registry), model=..., max_tokens=..., messages=[...])

A call that needs a person asks the registry's approver; without an answer the model gets an error and continues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from wasmrt.agent.registry import SchemaTool, ToolAnswer, ToolView
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, ToolError
from wasmrt.interop.adapters._bridge import Bridge, Declared, missing
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
    raise missing("anthropic>=2") from error


class _Tool:
    """One tool of a registry, as the runner declares it."""

    def __init__(self, bridge: Bridge, definition: dict[str, Any]) -> None:
        self._bridge = bridge
        self._definition = definition

    def to_dict(self) -> Any:
        return self._definition


class _RegistryTool(_Tool, BetaBuiltinFunctionTool):
    """One tool of a registry."""

    def call(self, input: object) -> str:
        return _text(self._bridge.answer(self.name, input))


class _AsyncRegistryTool(_Tool, BetaAsyncBuiltinFunctionTool):
    """One tool of a registry, for an asynchronous client."""

    async def call(self, input: object) -> str:
        return _text(await self._bridge.aanswer(self.name, input))


def _text(answer: ToolAnswer) -> str:
    if answer.error is not None:
        raise RunnerToolError(answer.text) from answer.error
    return answer.text


def tools_for(
    view: ToolView, *, user: str = "local", trace: str = "", data: Any = None
) -> list[BetaBuiltinFunctionTool]:
    """Return the tools of a registry or view for the tool runner of an `Anthropic` client."""
    bridge = Bridge(view, "anthropic", user=user, trace=trace, data=data)
    return [_RegistryTool(bridge, each) for each in view.definitions("anthropic")]


def async_tools_for(
    view: ToolView, *, user: str = "local", trace: str = "", data: Any = None
) -> list[BetaAsyncBuiltinFunctionTool]:
    """Return the tools of a registry or view for the tool runner of an `AsyncAnthropic` client."""
    bridge = Bridge(view, "anthropic", user=user, trace=trace, data=data)
    return [_AsyncRegistryTool(bridge, each) for each in view.definitions("anthropic")]


def tool_from(tool: BetaFunctionTool[Any] | BetaAsyncFunctionTool[Any], **declared: Unpack[Declared]) -> SchemaTool:
    """Return a function under `@beta_tool` as a tool for a registry; without `effects` it counts as having all.

    Raises:
        ConfigurationError: it is none, or cannot be a tool here.
    """
    if not isinstance(tool, (BetaFunctionTool, BetaAsyncFunctionTool)):
        raise ConfigurationError(f"{tool!r:.80} is no function of Anthropic's runner", hint="put @beta_tool above it")
    is_async = isinstance(tool, BetaAsyncFunctionTool)

    def run(params: dict[str, Any], _: ToolContext) -> Any:
        if isinstance(tool, BetaAsyncFunctionTool):
            return _awaited(tool, params)
        try:
            return _content(tool.call(params))
        except Exception as error:
            raise _failure(error) from error

    return SchemaTool(
        run, name=tool.name, description=tool.description, schema=tool.input_schema, is_async=is_async, **declared,
    )  # fmt: skip


async def _awaited(tool: BetaAsyncFunctionTool[Any], params: dict[str, Any]) -> Any:
    try:
        return _content(await tool.call(params))
    except Exception as error:
        raise _failure(error) from error


def _content(result: Any) -> Any:
    return result if isinstance(result, str) or not isinstance(result, Iterable) else list(result)


def _failure(error: Exception) -> Exception:
    if isinstance(error, ValueError) and error.__cause__ is not None:  # the runner's word for arguments that do not fit
        return InvalidParametersError(str(error))
    return ToolError(str(error)) if isinstance(error, RunnerToolError) else error
