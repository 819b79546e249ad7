"""A tool loop for clients without one: call the model, answer its tool calls, repeat."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, Unpack, cast

from wasmrt.agent.registry import SchemaTool, ToolAnswer, ToolCall, ToolView
from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.adapters._bridge import ToolDeclaration, check_view

MAX_TURNS = 20
"""Default maximum number of requests to the model."""
_HINTS = {"tools": "write your own loop for this", "stream": "pass on_event for a stream"}
Client = TypeVar("Client")
AsyncClient = TypeVar("AsyncClient")
Reply = TypeVar("Reply")


@dataclass(slots=True, kw_only=True)
class Conversation(Generic[Reply]):
    """A conversation that has ended, or has reached its maximum number of turns."""

    messages: list[dict[str, Any]]
    """All messages, in the form of the next request."""
    reply: Reply
    """The model's last reply."""
    finished: bool
    """False if the model called tools in its last turn and has not received their answers."""
    answers: list[ToolAnswer] = field(default_factory=list)
    """The answers of its calls in order, each with its usage or error."""
    tokens: dict[str, int] = field(default_factory=dict)
    """Total tokens of all requests, by the provider's names."""


class Turn(NamedTuple):
    """The part of a reply that the loop uses."""

    messages: list[dict[str, Any]]
    """Messages to send with the next request."""
    calls: list[ToolCall]
    tokens: Mapping[str, Any]


class StreamedReply(Protocol):
    """A reply that is built from a stream of events."""

    def take(self, event: Any) -> None:
        """Add an event."""

    def reply(self) -> Any:
        """Return the complete reply.

        Raises:
            ExternalServiceError: the stream ended before the reply was complete.
        """


class Streaming(NamedTuple):
    """The way in which a provider streams a reply."""

    request: Mapping[str, Any]
    """Parameters of the request in addition to `stream`."""
    new_reply: Callable[[], StreamedReply]


@dataclass(frozen=True, slots=True)
class Provider(Generic[Client, AsyncClient, Reply]):
    """The functions that call a provider's model and answer its tool calls, and the loop that uses them."""

    definitions: Callable[[ToolView], list[dict[str, Any]]]
    """Returns the tools of a view in the form of the request."""
    create: Callable[[Any], Callable[..., Any]]
    """Returns the method of a client that calls the model."""
    read: Callable[[Any], Turn]
    """Returns the turn of a reply."""
    results: Callable[[list[ToolAnswer]], list[dict[str, Any]]]
    """Returns the messages that answer the calls of one turn."""
    conversation: str = "messages"
    """The request parameter with the messages."""
    streaming: Streaming | None = None

    def run(
        self,
        client: Client,
        view: ToolView,
        messages: Iterable[Mapping[str, Any]],
        *,
        user: str = "local",
        trace: str = "",
        data: Any = None,
        max_turns: int = MAX_TURNS,
        on_event: Callable[[Any], object] | None = None,
        **request: Any,
    ) -> Conversation[Reply]:
        """Call the model and answer its tool calls until it makes none; `request` has `model` and other parameters.

        With `on_event`, replies are streamed, and `on_event` is called with each event.

        Raises:
            ConfigurationError: the request has a parameter that the loop sets, or streams are not supported.
            ExternalServiceError: a stream ended before the reply was complete.
            AnthropicError, OpenAIError: the client could not call the model.
        """
        conversation, streaming = self._start(view, messages, max_turns, request), self._streaming_for(on_event)
        for _ in range(max_turns):
            reply = self.create(client)(**self._make_next_request(conversation, view, request, streaming))
            if streaming is not None and on_event is not None:
                streamed = streaming.new_reply()
                with reply as events:
                    for event in events:
                        streamed.take(event)
                        on_event(event)
                reply = streamed.reply()
            calls = self._add_reply(conversation, reply)
            if not calls:
                break
            self._add_answers(conversation, view.execute_many(calls, user=user, trace=trace, data=data))
        return conversation

    async def arun(
        self,
        client: AsyncClient,
        view: ToolView,
        messages: Iterable[Mapping[str, Any]],
        *,
        user: str = "local",
        trace: str = "",
        data: Any = None,
        max_turns: int = MAX_TURNS,
        on_event: Callable[[Any], object] | None = None,
        **request: Any,
    ) -> Conversation[Reply]:
        """Do the same as `run` without blocking the event loop; cancelling it ends the running tools.

        Raises:
            ConfigurationError, ExternalServiceError, AnthropicError, OpenAIError: see `run`.
        """
        conversation, streaming = self._start(view, messages, max_turns, request), self._streaming_for(on_event)
        for _ in range(max_turns):
            reply = await self.create(client)(**self._make_next_request(conversation, view, request, streaming))
            if streaming is not None and on_event is not None:
                streamed = streaming.new_reply()
                async with reply as events:
                    async for event in events:
                        streamed.take(event)
                        if inspect.isawaitable(handled := on_event(event)):
                            await handled
                reply = streamed.reply()
            calls = self._add_reply(conversation, reply)
            if not calls:
                break
            self._add_answers(conversation, await view.aexecute_many(calls, user=user, trace=trace, data=data))
        return conversation

    def _start(
        self, view: ToolView, messages: Iterable[Mapping[str, Any]], turns: int, request: Mapping[str, Any]
    ) -> Conversation[Reply]:
        for name in request.keys() & _HINTS.keys():  # set by the loop
            raise ConfigurationError(f"{name} is set by the agent loop and cannot be passed", hint=_HINTS[name])
        check_view(view)
        if not isinstance(turns, int) or turns < 1:
            raise ConfigurationError(f"max_turns: expected a positive integer, got {turns!r:.40}")
        # The first reply replaces None before a caller can read it.
        return Conversation(messages=list(map(dict, messages)), reply=cast(Any, None), finished=False)

    def _streaming_for(self, on_event: Callable[[Any], object] | None) -> Streaming | None:
        if on_event is not None and self.streaming is None:
            raise ConfigurationError("streams of this client are not supported", hint=_HINTS["tools"])
        return None if on_event is None else self.streaming

    def _make_next_request(
        self, conversation: Conversation[Reply], view: ToolView, request: dict[str, Any], streaming: Streaming | None
    ) -> dict[str, Any]:
        tools, defaults = self.definitions(view), {} if streaming is None else {"stream": True, **streaming.request}
        messages = {self.conversation: list(conversation.messages)}
        return defaults | request | messages | ({"tools": tools} if tools else {})

    def _add_reply(self, conversation: Conversation[Reply], reply: Reply) -> list[ToolCall]:
        turn = self.read(reply)
        conversation.reply, conversation.finished = reply, not turn.calls
        conversation.messages += turn.messages
        for name, count in turn.tokens.items():
            if isinstance(count, int):
                conversation.tokens[name] = conversation.tokens.get(name, 0) + count
        return turn.calls

    def _add_answers(self, conversation: Conversation[Reply], answers: list[ToolAnswer]) -> None:
        conversation.answers += answers
        conversation.messages += self.results(answers)


def function_from(
    name: Any, description: Any, schema: Any, function: Callable[..., Any], **declared: Unpack[ToolDeclaration]
) -> SchemaTool:
    """Return a function with its provider's definition as a tool for a registry."""
    if not callable(function) or not isinstance(schema, Mapping):
        hint = "pass the definition in the provider's form, and its function"
        raise ConfigurationError(f"{name!r:.80}: expected a schema and a callable function", hint=hint)
    is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
    return SchemaTool(
        lambda params, _: function(**params), name=name, description=description or "", schema=schema,
        is_async=is_async, **declared,
    )  # fmt: skip
