"""Assemble tool calls from streamed pieces, and parse their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from wasmrt.core.errors import InvalidParametersError, MalformedArgumentsError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_PARAMS_BYTES
from wasmrt.core.strict_json import JsonError, read_json, write_json

MAX_CALLS = 128
"""Limit of calls in one turn of a model."""
MAX_NAME_CHARS = 256
_HINT = "send one JSON object with the arguments"


class ToolCall(NamedTuple):
    """One tool call of a model. `arguments` is an object, or the JSON text of one.

    Examples:
        >>> from wasmrt import ToolCall, ToolRegistry
        >>> answer = ToolRegistry().answer(ToolCall("call-1", "missing", "{}"))
        >>> answer.id, answer.ok
        ('call-1', False)
    """

    id: str
    name: str
    arguments: Any = "{}"


class ToolCallAccumulator:
    """Assembles tool calls from streamed pieces.

    Pieces of several calls may be interleaved; each piece has the index of its call. `add` accepts a piece from OpenAI
    (such as one entry of `delta.tool_calls`) or Anthropic (an event `content_block_start` or `content_block_delta`).
    `calls` contains the calls that were assembled so far.

    Raises:
        InvalidParametersError: a call is too large, there are too many calls, or a piece is malformed.

    Examples:
        >>> from wasmrt import ToolCallAccumulator
        >>> pieces = ToolCallAccumulator()
        >>> pieces.add({"index": 0, "id": "call-1", "function": {"name": "add", "arguments": '{"a": 1,'}})
        >>> pieces.add({"index": 0, "function": {"arguments": ' "b": 2}'}})
        >>> pieces.calls
        (ToolCall(id='call-1', name='add', arguments='{"a": 1, "b": 2}'),)
    """

    def __init__(self, *, max_bytes: int = MAX_PARAMS_BYTES, max_calls: int = MAX_CALLS) -> None:
        self._max_bytes = max_bytes
        self._max_calls = max_calls
        self._parts: dict[int, _Parts] = {}
        self._places: dict[int, int] = {}
        self._last = -1

    def add(self, piece: Any) -> None:
        """Add one piece: a mapping, or the object that a client library yields.

        Pieces that contain no part of a tool call are ignored.
        """
        if not isinstance(piece, Mapping):
            dump = getattr(piece, "model_dump", None)
            piece = dump() if callable(dump) else None
        if not isinstance(piece, Mapping):
            raise InvalidParametersError("a piece of a tool call is not an object", hint=_HINT)
        for choice in _as_list(piece.get("choices")):  # a whole OpenAI chunk
            self.add(choice)
        kind = piece.get("type")
        if kind in ("content_block_start", "content_block_delta"):
            self._add_anthropic(piece)
        elif "delta" in piece and isinstance(piece["delta"], Mapping):  # a choice of an OpenAI chunk
            for entry in _as_list(piece["delta"].get("tool_calls")):
                self._add_openai(entry)
        elif "tool_calls" in piece:  # a delta or a whole message
            for entry in _as_list(piece["tool_calls"]):
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
            raise InvalidParametersError("a piece of a tool call is not an object", hint=_HINT)
        identity, index = entry.get("id"), entry.get("index")
        if index is None:  # some servers omit it: an ID then begins a new call, other pieces continue the last call
            index = self._last + 1 if identity or not self._parts else self._last
        place = self._places.get(index, index) if isinstance(index, int) else index
        known = self._parts.get(place) if isinstance(place, int) else None
        if known is not None and identity and known.id and known.id != identity:  # some servers use one index for all
            place = self._places[index] = max(self._parts) + 1
        parts = self._get_parts(place)
        self._last = place
        function = entry.get("function")
        self._extend_call(parts, identity, function if isinstance(function, Mapping) else {})

    def _add_anthropic(self, event: Mapping[str, Any]) -> None:
        block = event.get("content_block")
        if isinstance(block, Mapping) and block.get("type") == "tool_use":
            given = block.get("input")
            self._extend_call(self._get_parts(event.get("index")), block.get("id"), {"name": block.get("name")})
            if isinstance(given, Mapping) and given:  # a whole block that was not streamed
                import json

                self._extend_call(self._get_parts(event.get("index")), None, {"arguments": json.dumps(given)})
        delta = event.get("delta")
        if isinstance(delta, Mapping) and delta.get("type") == "input_json_delta":
            if event.get("index") not in self._parts:
                raise InvalidParametersError("a piece of a tool call came before its start", hint=_HINT)
            self._extend_call(self._get_parts(event.get("index")), None, {"arguments": delta.get("partial_json")})

    def _get_parts(self, index: Any) -> _Parts:
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            raise InvalidParametersError("a piece of a tool call has no index", hint=_HINT)
        if index not in self._parts:
            if len(self._parts) >= self._max_calls:
                text = f"more than {self._max_calls} tool calls in one turn"
                raise InvalidParametersError(text, hint="make fewer calls")
            self._parts[index] = _Parts()
        return self._parts[index]

    def _extend_call(self, parts: _Parts, identity: Any, function: Mapping[str, Any]) -> None:
        name, text = function.get("name") or "", function.get("arguments") or ""
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidParametersError("the name or the arguments of a tool call are not text", hint=_HINT)
        if isinstance(identity, str) and identity:
            parts.id = identity[:MAX_NAME_CHARS]
        # Some servers send the name in pieces, others send the whole name with every piece.
        parts.name = name if name.startswith(parts.name) or parts.name == name else parts.name + name
        parts.size += len(text.encode("utf-8", "surrogatepass"))
        if parts.size > self._max_bytes or len(parts.name) > MAX_NAME_CHARS:
            raise InvalidParametersError(
                f"the arguments exceed {self._max_bytes} bytes", hint="pass large data by reference"
            )
        parts.arguments.append(text)


def _as_list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (list, tuple)) else ()


class _Parts:
    __slots__ = ("arguments", "id", "name", "size")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.size = 0


def parse_arguments(arguments: Any) -> dict[str, Any]:
    """Return a call's arguments as an object. Empty text counts as an empty object.

    A JSON string that contains JSON is parsed again, because models sometimes quote their arguments. Other mistakes are
    not corrected.

    Raises:
        MalformedArgumentsError: the arguments are not a JSON object. The message for invalid JSON names the position.
    """
    value = arguments
    for _ in range(2):
        if not isinstance(value, (str, bytes, bytearray)):
            break
        if not value.strip():
            value = {}
            break
        try:
            value = _read_json_arguments(value)
        except JsonError as error:
            raise MalformedArgumentsError(f"the arguments are {error}", hint=_HINT) from error
    if not isinstance(value, dict):
        raise MalformedArgumentsError("the arguments are not a JSON object", hint=_HINT)
    if value is arguments:
        # SECURITY: copy the object, with the limits for text. Later changes by the caller then have no effect.
        try:
            value = _read_json_arguments(write_json(value))
        except JsonError as error:
            raise MalformedArgumentsError(f"the arguments are {error}", hint=_HINT) from error
    found: dict[str, Any] = value
    return found


def _read_json_arguments(text: str | bytes | bytearray) -> Any:
    return read_json(text, max_bytes=MAX_PARAMS_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)


def read_call(call: Any) -> ToolCall:
    """Convert a tool call in the format of OpenAI or Anthropic to a `ToolCall`; return a `ToolCall` unchanged.

    Any other value becomes a call without a tool name, which is denied as a call of an unknown tool.
    """
    if isinstance(call, ToolCall):
        return call
    if not isinstance(call, Mapping):
        dump = getattr(call, "model_dump", None)
        call = dump() if callable(dump) else {}
    if not isinstance(call, Mapping):
        call = {}
    function = call.get("function")
    if isinstance(function, Mapping):  # an entry of OpenAI's tool_calls
        found = ToolCall(call.get("id") or "", function.get("name") or "", function.get("arguments", "{}"))
    else:  # a tool_use block of Anthropic, or a plain mapping
        arguments: Any = next((call[key] for key in ("input", "arguments", "params") if key in call), {})
        found = ToolCall(call.get("id") or "", call.get("name") or "", arguments)
    identity = found.id if isinstance(found.id, str) else ""
    name = found.name if isinstance(found.name, str) else ""
    return ToolCall(identity, name, found.arguments)
