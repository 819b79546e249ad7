"""Anthropic's client without a framework: the loop of a conversation whose model calls a registry's tools.

    said = run(Anthropic(), registry, [{"role": "user", "content": "hello"}], model="claude", max_tokens=1000).reply

A call that needs a person asks the registry's approver; without an answer the model is told so, and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wasmrt.adapters._bridge import missing
from wasmrt.adapters._loop import MAX_TURNS, Conversation, Loop, Turn, check_request, function_from
from wasmrt.effects import Effect
from wasmrt.errors import ConfigurationError
from wasmrt.tools import SchemaTool, ToolAnswer, ToolCall, ToolView

try:
    from anthropic import Anthropic, AsyncAnthropic
    from anthropic.types import Message
except ImportError as error:
    raise missing("anthropic>=1") from error


class _Messages:
    """The Messages API."""

    def __init__(self, client: Anthropic | AsyncAnthropic, request: dict[str, Any]) -> None:
        check_request(request)
        self._client = client
        self._request = request

    def ask(self, messages: list[dict[str, Any]], view: ToolView) -> Any:
        tools = view.definitions("anthropic")
        request = self._request | ({"tools": tools} if tools else {})
        return self._client.messages.create(messages=messages, **request)  # type: ignore[arg-type]

    def read(self, reply: Message) -> Turn:
        content = [block.model_dump(mode="json", exclude_unset=True) for block in reply.content]
        calls = [ToolCall(each["id"], each["name"], each["input"]) for each in content if each["type"] == "tool_use"]
        return Turn({"role": "assistant", "content": content}, calls, reply.usage.model_dump())

    def results(self, answers: list[ToolAnswer]) -> list[dict[str, Any]]:
        return [{"role": "user", "content": [answer.message("anthropic") for answer in answers]}]


def run(
    client: Anthropic,
    view: ToolView,
    messages: Iterable[Mapping[str, Any]],
    *,
    user: str = "local",
    trace: str = "",
    data: Any = None,
    max_turns: int = MAX_TURNS,
    **request: Any,
) -> Conversation[Message]:
    """Ask the model, answer its tool calls, and go on until it asks for no more; `request` is `model` and so on.

    Raises:
        ConfigurationError: the request has a key that is the loop's own.
        anthropic.AnthropicError: the model could not be asked.
    """
    circumstances = {"user": user, "trace": trace, "data": data}
    return Loop(_Messages(client, request), view, messages, max_turns, circumstances).run()


async def arun(
    client: AsyncAnthropic,
    view: ToolView,
    messages: Iterable[Mapping[str, Any]],
    *,
    user: str = "local",
    trace: str = "",
    data: Any = None,
    max_turns: int = MAX_TURNS,
    **request: Any,
) -> Conversation[Message]:
    """Hold a conversation as `run` does, without blocking the event loop; cancelling it ends the tools that run.

    Raises:
        ConfigurationError, anthropic.AnthropicError: as `run`.
    """
    circumstances = {"user": user, "trace": trace, "data": data}
    return await Loop(_Messages(client, request), view, messages, max_turns, circumstances).arun()


def tool_from(
    definition: Mapping[str, Any],
    function: Callable[..., Any],
    *,
    effects: Iterable[Effect | str] | None = None,
    actions: Mapping[str, Iterable[Effect | str]] | None = None,
    timeout_seconds: float = 60.0,
) -> SchemaTool:
    """Return a function and its entry of `tools` as a tool for a registry; without `effects` it has every one.

    The function is called with the params as keyword arguments.

    Raises:
        ConfigurationError: the definition is none of a tool with an `input_schema`.
    """
    if not isinstance(definition, Mapping) or "input_schema" not in definition:
        raise ConfigurationError("this is no tool's definition", hint="it has a name and an input_schema")
    return function_from(
        definition.get("name"), definition.get("description"), definition["input_schema"], function, effects=effects,
        actions=actions, timeout_seconds=timeout_seconds,
    )  # fmt: skip
