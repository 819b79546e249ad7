"""OpenAI's client without a framework: a loop for chat completions or responses, whose model calls a registry's tools.

    reply = run(OpenAI(), registry, [{"role": "user", "content": "hello"}], model="gpt-5").reply
    reply = run_responses(OpenAI(), registry, [{"role": "user", "content": "hello"}], model="gpt-5").reply

The registry's approver decides about calls that require approval; without an answer the model receives an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from wasmrt.agent.registry import SchemaTool, ToolAnswer, ToolCall, ToolView
from wasmrt.authoring.builder import ChatModel
from wasmrt.core.errors import ConfigurationError, ExternalServiceError
from wasmrt.interop.adapters._bridge import ToolDeclaration, missing_framework_error
from wasmrt.interop.adapters._loop import Provider, Streaming, Turn, function_from

try:
    from openai import AsyncOpenAI, OpenAI
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.responses import Response, ResponseStreamEvent
except ImportError as error:
    raise missing_framework_error("openai>=2") from error


def _read(reply: ChatCompletion) -> Turn:
    choice = reply.choices[0].message
    # Requests must not contain these fields of stream chunks.
    excluded: Any = {"index": True, "function": {"parsed_arguments"}}
    called = [call.model_dump(exclude_unset=True, exclude=excluded) for call in choice.tool_calls or ()]
    message: dict[str, Any] = {"role": "assistant", "content": choice.content}
    tokens = {} if reply.usage is None else reply.usage.model_dump()
    return Turn([message | ({"tool_calls": called} if called else {})], [_call(each) for each in called], tokens)


def _call(call: Mapping[str, Any]) -> ToolCall:
    """Return a call. A call that is not a function call has a tool name that does not exist."""
    function = call.get("function") or call.get(str(call.get("type"))) or {}
    return ToolCall(call["id"], function.get("name") or "", function.get("arguments", "{}"))


def _list_results(answers: list[ToolAnswer]) -> list[dict[str, Any]]:
    return [answer.message("openai") for answer in answers]


class _Chat:
    """A completion that arrives in chunks."""

    def __init__(self) -> None:
        self._state = ChatCompletionStreamState()
        self._ended = False

    def take(self, chunk: ChatCompletionChunk) -> None:
        self._state.handle_chunk(chunk)
        self._ended |= any(choice.finish_reason for choice in chunk.choices)

    def reply(self) -> ChatCompletion:
        if not self._ended:
            raise _stream_error()
        return self._state.current_completion_snapshot


def _stream_error() -> ExternalServiceError:
    return ExternalServiceError("the model's stream ended before its reply was complete", code="model-stream")


_CHAT: Provider[OpenAI, AsyncOpenAI, ChatCompletion] = Provider(
    lambda view: view.definitions("openai"),
    lambda client: client.chat.completions.create,
    _read,
    _list_results,
    streaming=Streaming({"stream_options": {"include_usage": True}}, _Chat),
)
run, arun = _CHAT.run, _CHAT.arun


def chat_model(client: OpenAI, *, model: str, **request: Any) -> ChatModel:
    """Return a client's model for `builder_tool`; `request` has further parameters of the request."""

    def complete(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        sent: dict[str, Any] = {"messages": messages, **({"tools": tools} if tools else {}), **request}
        return _read(client.chat.completions.create(model=model, **sent)).messages[0]

    return complete


def _read_response(reply: Response) -> Turn:
    items = [item.model_dump(mode="json", exclude_unset=True) for item in reply.output]
    calls = [
        ToolCall(each["call_id"], each["name"], each["arguments"]) for each in items if each["type"] == "function_call"
    ]
    return Turn(items, calls, {} if reply.usage is None else reply.usage.model_dump())


def _define_response_tools(view: ToolView) -> list[dict[str, Any]]:
    """Return the definitions for responses, with `strict` set to false, since it is true by default."""
    return [{"type": "function", "strict": False, **each["function"]} for each in view.definitions("openai")]


def _list_outputs(answers: list[ToolAnswer]) -> list[dict[str, Any]]:
    return [{"type": "function_call_output", "call_id": answer.id, "output": answer.text} for answer in answers]


class _Response:
    """A response that arrives as events. The last event contains the whole response."""

    def __init__(self) -> None:
        self._found: Response | None = None

    def take(self, event: ResponseStreamEvent) -> None:
        if event.type in ("response.completed", "response.incomplete", "response.failed"):
            self._found = event.response

    def reply(self) -> Response:
        if self._found is None:
            raise _stream_error()
        return self._found


_RESPONSES: Provider[OpenAI, AsyncOpenAI, Response] = Provider(
    _define_response_tools,
    lambda client: client.responses.create,
    _read_response,
    _list_outputs,
    conversation="input",
    streaming=Streaming({}, _Response),
)
run_responses, arun_responses = _RESPONSES.run, _RESPONSES.arun


def tool_from(
    definition: Mapping[str, Any], function: Callable[..., Any], **declared: Unpack[ToolDeclaration]
) -> SchemaTool:
    """Return a function and its entry of `tools`, of chats or responses, as a tool for a registry.

    Without `effects` it has all effects. The function is called with the params as keyword arguments.

    Raises:
        ConfigurationError: the definition is not a function definition.
    """
    if not isinstance(definition, Mapping) or definition.get("type") != "function":
        hint = 'pass a definition with "type": "function"'
        raise ConfigurationError(f"expected a function definition, got {definition!r:.80}", hint=hint)
    inner = definition.get("function", definition)
    found = inner if isinstance(inner, Mapping) else {}
    schema = found.get("parameters") or {}
    return function_from(found.get("name"), found.get("description"), schema, function, **declared)
