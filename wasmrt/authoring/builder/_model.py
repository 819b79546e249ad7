"""The model of a build, which the program passes, its replies, and the tools that it can call."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from wasmrt.core.errors import ToolError
from wasmrt.core.lifetime import Lifetime

_POLL_SECONDS = 0.05
_MAX_REPLY_CHARS = 1_000_000
_MAX_ERROR_CHARS = 300


class ChatModel(Protocol):
    """A function that calls a model. The messages, the tools and the reply have the form of OpenAI's chat completions.

    Example:
        >>> def echo(messages, tools):
        ...     return {"role": "assistant", "content": messages[-1]["content"]}
        >>> echo([{"role": "user", "content": "hello"}], [])["content"]
        'hello'
    """

    def __call__(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the model's next message: an object with `content`, `tool_calls`, or both."""


class Call(NamedTuple):
    """A tool call of a reply."""

    id: str
    name: str
    arguments: Any


class Reply(NamedTuple):
    """A checked reply."""

    message: dict[str, Any]
    text: str
    calls: tuple[Call, ...]


def ask(
    model: ChatModel, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], lifetime: Lifetime
) -> Reply:
    """Call the model, and wait for its reply until the build ends.

    Raises:
        ToolError: the model failed, or its reply is not a message.
        DeadlineExceededError, CancelledError: the build ended first. The model's late reply is discarded.
    """
    lifetime.check()
    replies: list[Any] = []
    failures: list[Exception] = []
    done = threading.Event()

    def run() -> None:
        try:
            replies.append(model([dict(each) for each in messages], tools))
        except Exception as error:
            failures.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="wasmrt-builder-model", daemon=True).start()
    while not done.wait(_POLL_SECONDS):
        lifetime.check()
    if not replies:
        reason = f"{type(failures[0]).__name__}: {failures[0]}" if failures else "the model's thread ended"
        raise _make_failure(reason[:_MAX_ERROR_CHARS])
    return _read(replies[0])


def _make_failure(reason: str) -> ToolError:
    return ToolError(f"LLM response failed: {reason}", code="model-failed", hint="check the program's model")


def _read(message: Any) -> Reply:
    if not isinstance(message, Mapping):
        raise _make_failure(f"expected a message object, got {type(message).__name__}")
    text, calls = message.get("content") or "", message.get("tool_calls") or ()
    if not isinstance(text, str) or not isinstance(calls, Sequence) or isinstance(calls, str):
        raise _make_failure('expected "content" as text and "tool_calls" as a list')
    read = tuple(_read_call(call) for call in calls)
    if len(text) + sum(len(str(call.arguments)) for call in read) > _MAX_REPLY_CHARS:
        raise _make_failure(f"the reply is longer than {_MAX_REPLY_CHARS:,} characters")
    return Reply({"role": "assistant", **message}, text, read)


def _read_call(call: Any) -> Call:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise _make_failure('expected each tool call to have "id" and "function" with "name" and "arguments"')
    return Call(str(call.get("id") or ""), function["name"], function.get("arguments", "{}"))


class Outcome(NamedTuple):
    """The outcome of one call."""

    ok: bool
    text: str
    """The text for the model."""
    result: Any = None
    """The result as JSON data; None if the call failed."""


class Workbench(Protocol):
    """The tools of one build. Each call runs through a registry's pipeline, and writes a receipt."""

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definitions of the tools that the model may call."""

    def call(self, name: str, arguments: Any) -> Outcome:
        """Run a call of the model: `arguments` is an object or its JSON text. Only offered tools run."""

    def step(self, name: str, params: dict[str, Any]) -> Outcome:
        """Run one of the builder's steps: `build_project`, `validate_project`, `test_project`, or `tool_install`."""
