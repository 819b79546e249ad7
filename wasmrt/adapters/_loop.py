"""The loop of a model that calls tools, for clients that have none of their own: ask, answer its calls, ask again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from wasmrt.adapters._bridge import is_async
from wasmrt.effects import Effect
from wasmrt.errors import ConfigurationError
from wasmrt.tools import SchemaTool, ToolAnswer, ToolCall, ToolView

MAX_TURNS = 20
"""Requests to the model, where the program says nothing else."""
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

    message: dict[str, Any]
    """To be sent back."""
    calls: list[ToolCall]
    tokens: Mapping[str, Any]


class Dialect(Protocol):
    """A provider's way of asking a model and of answering its calls."""

    def ask(self, messages: list[dict[str, Any]], view: ToolView) -> Any:
        """Return the reply, which may be awaitable."""

    def read(self, reply: Any) -> Turn:
        """Return the turn of a reply."""

    def results(self, answers: list[ToolAnswer]) -> list[dict[str, Any]]:
        """Return the messages that answer the calls of one turn."""


class Loop:
    """A conversation while it goes on.

    Args:
        circumstances: The `user`, `trace` and `data` of its calls.
    """

    def __init__(
        self, dialect: Dialect, view: ToolView, messages: Iterable[Mapping[str, Any]], turns: int,
        circumstances: Mapping[str, Any],
    ) -> None:  # fmt: skip
        if not isinstance(view, ToolView):
            raise ConfigurationError(f"{view!r:.80} is no registry and no view of one", hint="pass a ToolRegistry")
        if not isinstance(turns, int) or turns < 1:
            raise ConfigurationError("max_turns is a positive whole number")
        self._dialect = dialect
        self._view = view
        self._turns = turns
        self._circumstances = circumstances
        self._messages = [dict(message) for message in messages]
        self._answers: list[ToolAnswer] = []
        self._tokens: dict[str, int] = {}

    def run(self) -> Conversation[Any]:
        """Hold the conversation, blocking."""
        for _ in range(self._turns):
            reply = self._dialect.ask(list(self._messages), self._view)
            calls = self._take(reply)
            if not calls:
                break
            self._told(self._view.execute_many(calls, **self._circumstances))
        return self._ended(reply, finished=not calls)

    async def arun(self) -> Conversation[Any]:
        """Hold the conversation; cancelling it ends the tools that run."""
        for _ in range(self._turns):
            reply = await self._dialect.ask(list(self._messages), self._view)
            calls = self._take(reply)
            if not calls:
                break
            self._told(await self._view.aexecute_many(calls, **self._circumstances))
        return self._ended(reply, finished=not calls)

    def _take(self, reply: Any) -> list[ToolCall]:
        turn = self._dialect.read(reply)
        self._messages.append(turn.message)
        for name, count in turn.tokens.items():
            if isinstance(count, int):
                self._tokens[name] = self._tokens.get(name, 0) + count
        return turn.calls

    def _told(self, answers: list[ToolAnswer]) -> None:
        self._answers += answers
        self._messages += self._dialect.results(answers)

    def _ended(self, reply: Any, *, finished: bool) -> Conversation[Any]:
        return Conversation(
            messages=self._messages, reply=reply, finished=finished, answers=self._answers, tokens=self._tokens
        )


def check_request(request: Mapping[str, Any], *taken: str) -> None:
    """Refuse what the loop sets itself, and streams, which it does not read.

    Raises:
        ConfigurationError: the request has such a key.
    """
    for name in ("messages", "tools", "stream", *taken):
        if name in request:
            raise ConfigurationError(f"{name} is not for the request of a loop", hint="write a loop of your own for it")


def function_from(
    name: Any, description: Any, schema: Any, function: Callable[..., Any], *,
    effects: Iterable[Effect | str] | None, actions: Mapping[str, Iterable[Effect | str]] | None,
    timeout_seconds: float,
) -> SchemaTool:  # fmt: skip
    """Return a function and the definition that a provider has of it as a tool for a registry."""
    if not callable(function) or not isinstance(schema, Mapping):
        hint = "pass the definition as the provider takes it, and the function behind it"
        raise ConfigurationError(f"{name!r:.80} is no definition with a function", hint=hint)
    return SchemaTool(
        lambda params, _: function(**params), name=name, description=description or "", schema=schema, effects=effects,
        actions=actions, timeout_seconds=timeout_seconds, is_async=is_async(function),
    )  # fmt: skip
