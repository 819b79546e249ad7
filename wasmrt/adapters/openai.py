"""OpenAI's client without a framework: the loop of a chat whose model calls a registry's tools.

    said = run(OpenAI(), registry, [{"role": "user", "content": "hello"}], model="gpt-5").reply

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
    from openai import AsyncOpenAI, OpenAI
    from openai.types.chat import ChatCompletion
except ImportError as error:
    raise missing("openai>=2") from error

Message = Mapping[str, Any]


class _Chat:
    """Chat completions."""

    def __init__(self, client: OpenAI | AsyncOpenAI, request: dict[str, Any]) -> None:
        check_request(request)
        self._client = client
        self._request = request

    def ask(self, messages: list[dict[str, Any]], view: ToolView) -> Any:
        tools = view.definitions("openai")
        request = self._request | ({"tools": tools} if tools else {})
        return self._client.chat.completions.create(messages=messages, **request)  # type: ignore[arg-type]

    def read(self, reply: ChatCompletion) -> Turn:
        said = reply.choices[0].message
        called = [call.model_dump(exclude_unset=True) for call in said.tool_calls or ()]
        message: dict[str, Any] = {"role": "assistant", "content": said.content}
        tokens = {} if reply.usage is None else reply.usage.model_dump()
        return Turn(message | ({"tool_calls": called} if called else {}), [_call(each) for each in called], tokens)

    def results(self, answers: list[ToolAnswer]) -> list[dict[str, Any]]:
        return [answer.message("openai") for answer in answers]


def _call(call: Mapping[str, Any]) -> ToolCall:
    """Return a call; one of another kind than a function's is a call of a tool that is not there."""
    function = call.get("function") or call.get(str(call.get("type"))) or {}
    return ToolCall(call["id"], function.get("name") or "", function.get("arguments", "{}"))


def run(
    client: OpenAI,
    view: ToolView,
    messages: Iterable[Message],
    *,
    user: str = "local",
    trace: str = "",
    data: Any = None,
    max_turns: int = MAX_TURNS,
    **request: Any,
) -> Conversation[ChatCompletion]:
    """Ask the model, answer its tool calls, and go on until it asks for no more; `request` is `model` and so on.

    Raises:
        ConfigurationError: the request has a key that is the loop's own.
        openai.OpenAIError: the model could not be asked.
    """
    circumstances = {"user": user, "trace": trace, "data": data}
    return Loop(_Chat(client, request), view, messages, max_turns, circumstances).run()


async def arun(
    client: AsyncOpenAI,
    view: ToolView,
    messages: Iterable[Message],
    *,
    user: str = "local",
    trace: str = "",
    data: Any = None,
    max_turns: int = MAX_TURNS,
    **request: Any,
) -> Conversation[ChatCompletion]:
    """Hold a conversation as `run` does, without blocking the event loop; cancelling it ends the tools that run.

    Raises:
        ConfigurationError, openai.OpenAIError: as `run`.
    """
    circumstances = {"user": user, "trace": trace, "data": data}
    return await Loop(_Chat(client, request), view, messages, max_turns, circumstances).arun()


def tool_from(
    definition: Mapping[str, Any],
    function: Callable[..., Any],
    *,
    effects: Iterable[Effect | str] | None = None,
    actions: Mapping[str, Iterable[Effect | str]] | None = None,
    timeout_seconds: float = 60.0,
) -> SchemaTool:
    """Return a function and its entry of `tools`, of chats or of responses, as a tool for a registry.

    Without `effects` it is taken to have every one. The function is called with the params as keyword arguments.

    Raises:
        ConfigurationError: the definition is no function's.
    """
    if not isinstance(definition, Mapping) or definition.get("type") != "function":
        raise ConfigurationError("this is no function's definition", hint='it has "type": "function"')
    inner = definition.get("function", definition)
    found = inner if isinstance(inner, Mapping) else {}
    return function_from(
        found.get("name"), found.get("description"), found.get("parameters") or {}, function, effects=effects,
        actions=actions, timeout_seconds=timeout_seconds,
    )  # fmt: skip
