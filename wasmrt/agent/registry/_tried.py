"""Try flow rules on a recorded conversation: which of its calls would require approval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from wasmrt.agent.flows import Label
from wasmrt.agent.registry import _explain, _flow
from wasmrt.agent.registry._services import Trace
from wasmrt.agent.registry._state import CallState
from wasmrt.agent.registry._view import ToolView
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_FLOW_BYTES
from wasmrt.core.strict_json import JsonError, read_json

_NAME = "try"
_MAX_DEPTH = 64


class TriedCall(NamedTuple):
    """A call of a recorded conversation, with its outcome under the registry's rules."""

    tool: str
    params: Any
    explanation: _explain.Explanation
    provenance: tuple[str, ...]
    """The origin of the destinations because of which approval would be required, as lines."""


def try_conversation(view: ToolView, messages: Sequence[Any]) -> Iterator[TriedCall]:
    """Yield each call in the messages of a conversation, without making it. Recorded results follow their calls.

    The messages have the form of OpenAI's chat completions. Every approval is assumed to be given.

    Raises:
        ConfigurationError: a message has a different form.
    """
    trace, calls = view.trace(_NAME), dict[str, CallState]()
    try:
        for message in messages:
            if not isinstance(message, Mapping):
                raise ConfigurationError(f"expected a message as an object, got {type(message).__name__}")
            text = _read_text(message.get("content"))
            if message.get("role") == "user":
                trace.add_user_message(text)
            elif message.get("role") == "tool":
                _record(trace, calls.pop(str(message.get("tool_call_id")), None), text)
            for call in message.get("tool_calls") or ():
                state = _read_call(view, call)
                yield _try(state)
                calls[str(call.get("id"))] = state
    finally:
        trace.close()


def _read_text(content: Any) -> str:
    """Return the text of a message: its content, or the text of the parts of its content."""
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and part.get("text"))


def _read_call(view: ToolView, call: Any) -> CallState:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ConfigurationError("expected a tool call as an object with function.name and function.arguments")
    return view._new_state(function["name"], function.get("arguments") or "{}", trace=_NAME)


def _try(state: CallState) -> TriedCall:
    explanation = _explain.explain(state)
    lines = _flow.provenance_lines(state) if state.entry is not None else ()
    if explanation.outcome is _explain.Outcome.ASKS:
        _flow.record_approval(state)
    return TriedCall(state.request.name, state.params or state.request.arguments, explanation, lines)


def _record(trace: Trace, state: CallState | None, text: str) -> None:
    """Add a recorded result to the trace. The result of an unknown tool counts as private and untrusted."""
    result: Any = text
    with suppress(JsonError):
        result = read_json(text, max_bytes=MAX_FLOW_BYTES, max_depth=_MAX_DEPTH)
    if state is None or state.entry is None:
        trace.add_content(result, (Label.PRIVATE, Label.UNTRUSTED))
    else:
        _flow.record_result(state, result)
        _flow.record_written(state)
