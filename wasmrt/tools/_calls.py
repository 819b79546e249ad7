"""Tool calls as models send them: put together from streamed pieces, and parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from wasmrt.errors import InvalidParametersError, MalformedArgumentsError
from wasmrt.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_PARAMS_BYTES
from wasmrt.strict_json import JsonError, read_json

MAX_CALLS = 128
"""Calls of one turn of a model."""
MAX_NAME_CHARS = 256
_HINT = "send one JSON object with the arguments"


class ToolCall(NamedTuple):
    """One call that a model asks for: `arguments` is a JSON text, or the object itself."""

    id: str
    name: str
    arguments: Any = "{}"


class ToolCallAccumulator:
    """Joins the pieces of streamed tool calls, several at once, told apart by their index.

    `add` takes a delta of OpenAI (one entry of `delta.tool_calls`) or an event of Anthropic (`content_block_start`,
    `content_block_delta`), as a mapping. `calls` is what has come so far.

    Raises:
        InvalidParametersError: a call grows over its bound, there are too many, or a piece is not one.
    """

    def __init__(self, *, max_bytes: int = MAX_PARAMS_BYTES, max_calls: int = MAX_CALLS) -> None:
        self._max_bytes = max_bytes
        self._max_calls = max_calls
        self._parts: dict[int, _Parts] = {}

    def add(self, piece: Mapping[str, Any]) -> None:
        """Take one piece; one that has nothing of a tool call is passed over."""
        kind = piece.get("type")
        if kind in ("content_block_start", "content_block_delta"):
            self._add_anthropic(piece)
        elif "delta" in piece and isinstance(piece["delta"], Mapping):  # a choice of OpenAI's chunk
            for entry in piece["delta"].get("tool_calls") or ():
                self._add_openai(entry)
        elif "tool_calls" in piece:  # a delta or a whole message
            for entry in piece["tool_calls"] or ():
                self._add_openai(entry)
        elif "function" in piece:
            self._add_openai(piece)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in the order of their indexes."""
        return tuple(
            ToolCall(parts.id or f"call-{index}", parts.name, "".join(parts.arguments) or "{}")
            for index, parts in sorted(self._parts.items())
        )

    def __iter__(self) -> Iterator[ToolCall]:
        return iter(self.calls)

    def _add_openai(self, entry: Any) -> None:
        if not isinstance(entry, Mapping):
            raise InvalidParametersError("a piece of a tool call is no object", hint=_HINT)
        parts = self._at(entry.get("index", len(self._parts)))
        function = entry.get("function")
        self._extend(parts, entry.get("id"), function if isinstance(function, Mapping) else {})

    def _add_anthropic(self, event: Mapping[str, Any]) -> None:
        block = event.get("content_block")
        if isinstance(block, Mapping) and block.get("type") == "tool_use":
            given = block.get("input")
            self._extend(self._at(event.get("index")), block.get("id"), {"name": block.get("name")})
            if isinstance(given, Mapping) and given:  # a whole block that was not streamed
                import json

                self._extend(self._at(event.get("index")), None, {"arguments": json.dumps(given)})
        delta = event.get("delta")
        if isinstance(delta, Mapping) and delta.get("type") == "input_json_delta":
            if event.get("index") not in self._parts:
                raise InvalidParametersError("a piece of a tool call came before its start", hint=_HINT)
            self._extend(self._at(event.get("index")), None, {"arguments": delta.get("partial_json")})

    def _at(self, index: Any) -> _Parts:
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            raise InvalidParametersError("a piece of a tool call has no index", hint=_HINT)
        if index not in self._parts:
            if len(self._parts) >= self._max_calls:
                raise InvalidParametersError(f"a turn may hold {self._max_calls} tool calls", hint="ask for fewer")
            self._parts[index] = _Parts()
        return self._parts[index]

    def _extend(self, parts: _Parts, identity: Any, function: Mapping[str, Any]) -> None:
        name, text = function.get("name") or "", function.get("arguments") or ""
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidParametersError("a piece of a tool call is no text", hint=_HINT)
        if isinstance(identity, str) and identity:
            parts.id = identity[:MAX_NAME_CHARS]
        # Some servers send the name in pieces, others send all of it with every piece.
        parts.name = name if name.startswith(parts.name) or parts.name == name else parts.name + name
        parts.size += len(text.encode("utf-8", "surrogatepass"))
        if parts.size > self._max_bytes or len(parts.name) > MAX_NAME_CHARS:
            raise InvalidParametersError(
                f"the arguments are over {self._max_bytes} bytes", hint="pass large data by reference"
            )
        parts.arguments.append(text)


class _Parts:
    __slots__ = ("arguments", "id", "name", "size")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.size = 0


def parse_arguments(arguments: Any) -> dict[str, Any]:
    """Return a call's arguments as an object; an empty text is one without fields.

    A text that holds a JSON text is read once more: models quote their arguments now and then. Nothing else is mended.

    Raises:
        MalformedArgumentsError: they are no JSON object; the message says at which place.
    """
    value = arguments
    for _ in range(2):
        if not isinstance(value, (str, bytes, bytearray)):
            break
        if not value.strip():
            value = {}
            break
        try:
            value = read_json(value, max_bytes=MAX_PARAMS_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)
        except JsonError as error:
            raise MalformedArgumentsError(f"the arguments are {error}", hint=_HINT) from error
    if not isinstance(value, dict):
        raise MalformedArgumentsError("the arguments are no JSON object", hint=_HINT)
    return value


def read_call(call: ToolCall | Mapping[str, Any]) -> ToolCall:
    """Return a model's tool call from OpenAI's or Anthropic's form, or as it is.

    Raises:
        InvalidParametersError: it is none of them.
    """
    if isinstance(call, ToolCall):
        return call
    function = call.get("function")
    if isinstance(function, Mapping):  # OpenAI's tool_calls entry
        found = ToolCall(call.get("id") or "", function.get("name") or "", function.get("arguments", "{}"))
    else:  # Anthropic's tool_use block, or a plain mapping
        arguments: Any = next((call[key] for key in ("input", "arguments", "params") if key in call), {})
        found = ToolCall(call.get("id") or "", call.get("name") or "", arguments)
    if not isinstance(found.id, str) or not isinstance(found.name, str):
        raise InvalidParametersError("a tool call has a name and an id, which are texts", hint="pass it as it came")
    return found
