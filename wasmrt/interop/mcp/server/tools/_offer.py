"""The registry's tools as a client is offered them, and results as MCP content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from wasmrt.agent.registry import ToolAnswer, ToolView
from wasmrt.core.errors import InvalidComponentError, InvalidParametersError, WasmrtError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_TOOL_OUTPUT_BYTES
from wasmrt.core.names import folded, offered_name, shortened
from wasmrt.core.strict_json import JsonError, read_json, write_json
from wasmrt.interop.mcp.server.protocol import INVALID_PARAMS, Caller, RpcError
from wasmrt.sandbox.schema import Validator

MAX_NAME_CHARS = 40
"""Of a tool's name: clients put their own prefix before it, and model providers take 64 in all."""
PAGE_SIZE = 200
MAX_PAGE_BYTES = 1024 * 1024
_CURSOR = re.compile(r"after:([a-zA-Z0-9_-]{1,64})")


class Offered(NamedTuple):
    """One tool, under the name that clients call it by."""

    name: str
    tool: str
    """The name that the registry knows it by."""
    definition: dict[str, Any]
    output: Validator | None
    """The validator of `{"result": ...}`; None where the schema of results is not known, or too heavy to check."""

    def for_version(self, version: str) -> dict[str, Any]:
        """Return the definition with the fields of one revision; readers of the older ones want objects as outputs."""
        found = dict(self.definition)
        if version < "2025-03-26":
            found.pop("annotations")
        if version < "2025-06-18":
            found.pop("title")
            found.pop("outputSchema", None)
        elif version < "2026-07-28" and "outputSchema" in found and not is_object(found["outputSchema"]):
            found["outputSchema"] = _in_object(found["outputSchema"])
        return found


class Offer:
    """An immutable list of the offered tools; it is rebuilt after every change."""

    def __init__(self, view: ToolView) -> None:
        self.problems: list[str] = []
        """Tools that cannot be offered, in sentences."""
        found: dict[str, Offered] = {}
        taken: dict[str, str] = {}
        for name in view.tool_names():
            try:
                each = _offered(view, name)
            except WasmrtError as error:
                self.problems.append(f"{name} cannot be offered: {error.message}")
                continue
            other = taken.setdefault(folded(each.name), name)
            if other != name:
                self.problems.append(f"{name} cannot be offered: clients could take its name for that of {other}")
                continue
            found[each.name] = each
        self._tools = dict(sorted(found.items()))

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Offered]:
        return iter(self._tools.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Offer) and [t.definition for t in self] == [t.definition for t in other]

    __hash__ = None  # type: ignore[assignment]  # compared, never kept in a set

    def find(self, name: str) -> Offered | None:
        """Return the tool of this exact name, or None."""
        return self._tools.get(name)

    def page(self, cursor: object, version: str) -> dict[str, Any]:
        """Return the tools behind a cursor, and the cursor of the next page, if any.

        A cursor is the last name of its page, so that it stays valid when tools are added or removed.

        Raises:
            RpcError: the cursor is invalid.
        """
        after = ""
        if cursor is not None:
            read = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
            if read is None:
                raise RpcError(INVALID_PARAMS, "the cursor is none of this server's; ask without one")
            after = read[1]
        listed: list[dict[str, Any]] = []
        size = 0
        for each in self:
            if each.name <= after:
                continue
            definition = each.for_version(version)
            size += len(str(definition))
            if listed and (len(listed) >= PAGE_SIZE or size > MAX_PAGE_BYTES):
                return {"tools": listed, "nextCursor": f"after:{listed[-1]['name']}"}
            listed.append(definition)
        return {"tools": listed}


def served_name(name: str) -> str:
    """Return the name of a registry's tool for clients: `[a-zA-Z0-9_-]`, at most 40 characters."""
    fitting = offered_name(name)
    return fitting if len(fitting) <= MAX_NAME_CHARS else shortened(fitting, name, MAX_NAME_CHARS)


def is_object(schema: Any) -> bool:
    """Return whether a schema describes only objects."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def _unmirrored(schema: Any) -> Any:
    """Return a schema that asks for no header: clients drop a tool whose author asks for one wrongly."""
    if isinstance(schema, dict):
        kept = {key: value for key, value in schema.items() if key != "x-mcp-header" or isinstance(value, dict)}
        return {key: _unmirrored(value) for key, value in kept.items()}
    return [_unmirrored(item) for item in schema] if isinstance(schema, list) else schema


def _offered(view: ToolView, name: str) -> Offered:
    declared = view.definition(name, "mcp")
    served = served_name(name)
    title = re.sub(r"[^a-zA-Z0-9]+", " ", name).strip() or name
    definition = {
        "name": served,
        "title": title[:1].upper() + title[1:],
        "description": declared["description"],
        # One schema with a non-object root makes clients drop every tool of a server.
        "inputSchema": {"type": "object", "properties": {}} | _unmirrored(declared["inputSchema"]) | {"type": "object"},
        "annotations": {"title": title[:1].upper() + title[1:], **declared["annotations"]},
    }
    output = declared.get("outputSchema")
    if output is None:
        return Offered(served, name, definition, None)
    return Offered(served, name, definition | {"outputSchema": output}, Validator(_in_object(output)))


def _in_object(schema: Any) -> dict[str, Any]:
    """Return the schema of an object that holds a value of another schema, as `result`."""
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


_EDITED = "(a person changed the parameters of this call)"
_STRUCTURED_FROM = "2025-06-18"


def call_result(offered: Offered, answer: ToolAnswer, caller: Caller, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return the result of a call that ended, well or badly; `clean` makes a text fit to read."""
    if answer.error is not None or answer.output is None:
        return error_result(answer.body)
    if answer.media is not None:
        value, text, whole = None, answer.body, False
    elif isinstance(answer.output.result, str):
        value, text, whole = answer.body, answer.body, not answer.truncated
    else:
        value, text, whole = _read_again(answer, clean)
    result: dict[str, Any] = {"content": [_text(text), *(answer.media or ())], "isError": False}
    if answer.edited:
        result["content"].append(_text(_EDITED))
    if offered.output is not None and (problem := _misfit(offered, value, whole=whole)):
        return error_result(f"{problem}\n{text}")
    if whole and caller.version >= _STRUCTURED_FROM:
        result["structuredContent"] = _structured(value, offered, caller)
    return result


def error_result(text: str) -> dict[str, Any]:
    """Return the result of a call that failed: the model reads why, and goes on from there."""
    return {"content": [_text(text)], "isError": True}


def _read_again(answer: ToolAnswer, clean: Callable[[str], str]) -> tuple[Any, str, bool]:
    """Return the data, its text, and whether it is all of it.

    SECURITY: the data is read from the text that was made safe to read; were it the tool's own, a client that shows a
    model the structured content alone would show it what was taken out of the text.
    """
    if answer.truncated:
        return None, answer.body, False
    try:
        value = read_json(answer.body, max_bytes=2 * MAX_TOOL_OUTPUT_BYTES, max_depth=2 * MAX_JSON_DEPTH)
    except JsonError:  # the sanitized text is not JSON
        return None, answer.body, False
    value = _cleaned(value, clean)  # characters that JSON writes as escapes come to light only now
    return value, write_json(value), True


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(item, clean) for item in value]
    if isinstance(value, dict):
        return {clean(key): _cleaned(item, clean) for key, item in value.items()}
    return value


def _misfit(offered: Offered, value: Any, *, whole: bool) -> str | None:
    """Return why a result does not match the tool's output schema, or None if it does."""
    assert offered.output is not None
    if not whole:
        return "the answer was cut or made safe to read, and is no longer what the tool's outputSchema says:"
    try:
        offered.output.check({"result": value})
    except (InvalidParametersError, InvalidComponentError) as error:
        return f"the tool's answer is not what its outputSchema says ({error.message}):"
    return None


def _structured(value: Any, offered: Offered, caller: Caller) -> Any:
    """Return the structured content: any JSON in the modern revision, an object in the older ones."""
    if caller.modern:
        return value
    schema = offered.definition.get("outputSchema")
    wrapped = not isinstance(value, dict) if schema is None else not is_object(schema)
    return {"result": value} if wrapped else value


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
