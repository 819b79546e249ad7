"""The tool loop for clients without one: call the model, answer its tool calls, repeat."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, Unpack, cast

from wasmrt.agent.registry import SchemaTool, ToolAnswer, ToolCall, ToolView
from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.adapters._bridge import Declared, check_view

MAX_TURNS = 20
"""Requests to the model, where the program says nothing else."""
_HINTS = {"tools": "write a loop of your own for it", "stream": "pass on_event for a stream"}
Client = TypeVar("Client")
AsyncClient = TypeVar("AsyncClient")
Reply = TypeVar("Reply")


@dataclass(slots=True, kw_only=True)
class Conversation(Generic[Reply]):
    """A conversation that has ended, or was cut after its last turn."""

    messages: list[dict[str, Any]]
    """All of it, as the next request would send it."""
    reply: Reply
    """The model's last reply."""
    finished: bool
    """False where the model has called tools with its last turn, and has not read their answers."""
    answers: list[ToolAnswer] = field(default_factory=list)
    """The answers of its calls in order, each with what it used, or its error."""
    tokens: dict[str, int] = field(default_factory=dict)
    """Tokens of all requests together, by the names that the provider has for them."""


class Turn(NamedTuple):
    """The part of a reply that the loop needs."""

    messages: list[dict[str, Any]]
    """To be sent back."""
    calls: list[ToolCall]
    tokens: Mapping[str, Any]


class Gathered(Protocol):
    """A reply that comes as a stream of events."""

    def take(self, event: Any) -> None:
        """Add an event."""

    def reply(self) -> Any:
        """Return the reply as it would have come in one piece.

        Raises:
            ExternalServiceError: the stream ended before the reply did.
        """


class Streaming(NamedTuple):
    """A provider's way of sending a reply in pieces."""

    request: Mapping[str, Any]
    """The part of the request that asks for it, beside `stream`."""
    gather: Callable[[], Gathered]


@dataclass(frozen=True, slots=True)
class Provider(Generic[Client, AsyncClient, Reply]):
    """A provider's way of asking a model and of answering its calls, and the loop that goes it."""

    definitions: Callable[[ToolView], list[dict[str, Any]]]
    """The tools of a view as its request has them."""
    create: Callable[[Any], Callable[..., Any]]
    """The method of a client that asks the model."""
    read: Callable[[Any], Turn]
    """The turn of a reply."""
    results: Callable[[list[ToolAnswer]], list[dict[str, Any]]]
    """The messages that answer the calls of one turn."""
    conversation: str = "messages"
    """The part of its request that holds the conversation."""
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
        """Call the model and answer its tool calls until it makes no more; `request` is `model` and so on.

        With `on_event`, replies are streamed, and it is called with each event.

        Raises:
            ConfigurationError: the request has a key that is the loop's own; the client's streams are not read here.
            ExternalServiceError: a stream ended before the reply did.
            AnthropicError, OpenAIError: the model could not be asked; the error is the client's own.
        """
        held, streaming = self._begun(view, messages, max_turns, request), self._streamed(on_event)
        for _ in range(max_turns):
            reply = self.create(client)(**self._next(held, view, request, streaming))
            if streaming is not None and on_event is not None:
                gathered = streaming.gather()
                with reply as events:
                    for event in events:
                        gathered.take(event)
                        on_event(event)
                reply = gathered.reply()
            calls = self._take(held, reply)
            if not calls:
                break
            self._tell(held, view.execute_many(calls, user=user, trace=trace, data=data))
        return held

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
        """Hold a conversation as `run` does, without blocking the event loop; cancelling it ends the tools that run.

        Raises:
            ConfigurationError, ExternalServiceError, AnthropicError, OpenAIError: as `run`.
        """
        held, streaming = self._begun(view, messages, max_turns, request), self._streamed(on_event)
        for _ in range(max_turns):
            reply = await self.create(client)(**self._next(held, view, request, streaming))
            if streaming is not None and on_event is not None:
                gathered = streaming.gather()
                async with reply as events:
                    async for event in events:
                        gathered.take(event)
                        if inspect.isawaitable(heard := on_event(event)):
                            await heard
                reply = gathered.reply()
            calls = self._take(held, reply)
            if not calls:
                break
            self._tell(held, await view.aexecute_many(calls, user=user, trace=trace, data=data))
        return held

    def _begun(
        self, view: ToolView, messages: Iterable[Mapping[str, Any]], turns: int, request: Mapping[str, Any]
    ) -> Conversation[Reply]:
        for name in request.keys() & _HINTS.keys():  # the loop's own
            raise ConfigurationError(f"{name} is not for the request of a loop", hint=_HINTS[name])
        check_view(view)
        if not isinstance(turns, int) or turns < 1:
            raise ConfigurationError("max_turns is a positive whole number")
        # The reply is set before it is read.
        return Conversation(messages=list(map(dict, messages)), reply=cast(Any, None), finished=False)

    def _streamed(self, on_event: Callable[[Any], object] | None) -> Streaming | None:
        if on_event is not None and self.streaming is None:
            raise ConfigurationError("streams of this client are not read here", hint=_HINTS["tools"])
        return None if on_event is None else self.streaming

    def _next(
        self, held: Conversation[Reply], view: ToolView, request: dict[str, Any], streaming: Streaming | None
    ) -> dict[str, Any]:
        tools, asked = self.definitions(view), {} if streaming is None else {"stream": True, **streaming.request}
        return asked | request | {self.conversation: list(held.messages)} | ({"tools": tools} if tools else {})

    def _take(self, held: Conversation[Reply], reply: Reply) -> list[ToolCall]:
        turn = self.read(reply)
        held.reply, held.finished = reply, not turn.calls
        held.messages += turn.messages
        for name, count in turn.tokens.items():
            if isinstance(count, int):
                held.tokens[name] = held.tokens.get(name, 0) + count
        return turn.calls

    def _tell(self, held: Conversation[Reply], answers: list[ToolAnswer]) -> None:
        held.answers += answers
        held.messages += self.results(answers)


def function_from(
    name: Any, description: Any, schema: Any, function: Callable[..., Any], **declared: Unpack[Declared]
) -> SchemaTool:
    """Return a function and the definition that a provider has of it as a tool for a registry."""
    if not callable(function) or not isinstance(schema, Mapping):
        hint = "pass the definition as the provider takes it, and the function behind it"
        raise ConfigurationError(f"{name!r:.80} is no definition with a function", hint=hint)
    is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
    return SchemaTool(
        lambda params, _: function(**params), name=name, description=description or "", schema=schema,
        is_async=is_async, **declared,
    )  # fmt: skip
