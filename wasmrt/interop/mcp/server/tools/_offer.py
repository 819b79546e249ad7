"""The registry's tools as offered to clients, and their results as MCP content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from wasmrt.agent.registry import ToolAnswer, ToolView
from wasmrt.core.errors import InvalidComponentError, InvalidParametersError, WasmrtError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_TOOL_OUTPUT_BYTES
from wasmrt.core.names import fold_name, offered_name, shorten_name
from wasmrt.core.strict_json import JsonError, read_json, write_json
from wasmrt.interop.mcp.server.protocol import INVALID_PARAMS, Caller, RpcError
from wasmrt.sandbox.schema import Validator

MAX_NAME_CHARS = 40
"""Maximum characters of a tool's name. Clients add a prefix, and model providers allow 64 characters in total."""
PAGE_SIZE = 200
MAX_PAGE_BYTES = 1024 * 1024
_CURSOR = re.compile(r"after:([a-zA-Z0-9_-]{1,64})")


class Offered(NamedTuple):
    """One tool, under the name that clients use."""

    name: str
    tool: str
    """The tool's name in the registry."""
    definition: dict[str, Any]
    output: Validator | None
    """The validator of `{"result": ...}`; None if the output schema is unknown or too expensive to check."""

    def for_version(self, version: str) -> dict[str, Any]:
        """Return the definition with the fields of a revision; older revisions require objects as outputs."""
        found = dict(self.definition)
        if version < "2025-03-26":
            found.pop("annotations")
        if version < "2025-06-18":
            found.pop("title")
            found.pop("outputSchema", None)
        elif version < "2026-07-28" and "outputSchema" in found and not is_object(found["outputSchema"]):
            found["outputSchema"] = _wrap_schema(found["outputSchema"])
        return found


class Offer:
    """An immutable list of the offered tools; it is rebuilt after every change."""

    def __init__(self, view: ToolView) -> None:
        self.problems: list[str] = []
        """The tools that cannot be offered, as sentences."""
        found: dict[str, Offered] = {}
        taken: dict[str, str] = {}
        for name in view.tool_names():
            try:
                each = _offer_tool(view, name)
            except WasmrtError as error:
                self.problems.append(f"{name} cannot be offered: {error.message}")
                continue
            other = taken.setdefault(fold_name(each.name), name)
            if other != name:
                self.problems.append(f"{name} cannot be offered: its name is too similar to {other}")
                continue
            found[each.name] = each
        self._tools = dict(sorted(found.items()))

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Offered]:
        return iter(self._tools.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Offer) and [t.definition for t in self] == [t.definition for t in other]

    __hash__ = None  # type: ignore[assignment]  # compared only

    def find(self, name: str) -> Offered | None:
        """Return the tool of this exact name, or None."""
        return self._tools.get(name)

    def page(self, cursor: object, version: str) -> dict[str, Any]:
        """Return the tools after a cursor, and the cursor of the next page, if any.

        A cursor is the last name of its page, so it stays valid when tools are added or removed.

        Raises:
            RpcError: the cursor is invalid.
        """
        after = ""
        if cursor is not None:
            read = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
            if read is None:
                raise RpcError(INVALID_PARAMS, "unknown cursor; start again without one")
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
    """Return the client's name for a registry's tool: `[a-zA-Z0-9_-]`, at most 40 characters."""
    fitting = offered_name(name)
    return fitting if len(fitting) <= MAX_NAME_CHARS else shorten_name(fitting, name, MAX_NAME_CHARS)


def is_object(schema: Any) -> bool:
    """Return whether a schema describes only objects."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def _without_mirroring(schema: Any) -> Any:
    """Return a schema without header mirroring: clients reject a tool whose mirroring is invalid."""
    if isinstance(schema, dict):
        kept = {key: value for key, value in schema.items() if key != "x-mcp-header" or isinstance(value, dict)}
        return {key: _without_mirroring(value) for key, value in kept.items()}
    return [_without_mirroring(item) for item in schema] if isinstance(schema, list) else schema


def _offer_tool(view: ToolView, name: str) -> Offered:
    declared = view.definition(name, "mcp")
    served = served_name(name)
    title = re.sub(r"[^a-zA-Z0-9]+", " ", name).strip() or name
    definition = {
        "name": served,
        "title": title[:1].upper() + title[1:],
        "description": declared["description"],
        # A single schema with a non-object root makes clients reject all tools of a server.
        "inputSchema": {"type": "object", "properties": {}}
        | _without_mirroring(declared["inputSchema"])
        | {"type": "object"},
        "annotations": {"title": title[:1].upper() + title[1:], **declared["annotations"]},
    }
    output = declared.get("outputSchema")
    if output is None:
        return Offered(served, name, definition, None)
    return Offered(served, name, definition | {"outputSchema": output}, Validator(_wrap_schema(output)))


def _wrap_schema(schema: Any) -> dict[str, Any]:
    """Return the schema of an object whose `result` has another schema."""
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


_EDITED = "(a person changed the parameters of this call)"
_STRUCTURED_FROM = "2025-06-18"


def call_result(offered: Offered, answer: ToolAnswer, caller: Caller, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return the result of an ended call, successful or failed; `clean` sanitizes text."""
    if answer.error is not None or answer.output is None:
        return error_result(answer.body)
    if answer.media is not None:
        value, text, whole = None, answer.body, False
    elif isinstance(answer.output.result, str):
        value, text, whole = answer.body, answer.body, not answer.truncated
    else:
        value, text, whole = _read_again(answer, clean)
    result: dict[str, Any] = {"content": [_make_text_block(text), *(answer.media or ())], "isError": False}
    if answer.edited:
        result["content"].append(_make_text_block(_EDITED))
    if offered.output is not None and (problem := _explain_mismatch(offered, value, whole=whole)):
        return error_result(f"{problem}\n{text}")
    if whole and caller.version >= _STRUCTURED_FROM:
        result["structuredContent"] = _make_structured_content(value, offered, caller)
    return result


def error_result(text: str) -> dict[str, Any]:
    """Return the result of a failed call; the model reads the error and continues."""
    return {"content": [_make_text_block(text)], "isError": True}


def _read_again(answer: ToolAnswer, clean: Callable[[str], str]) -> tuple[Any, str, bool]:
    """Return the data, its text, and whether it is complete.

    SECURITY: parse the data from the sanitized text; clients may show a model only the structured content, and the
    tool's own data would contain what was removed from the text.
    """
    if answer.truncated:
        return None, answer.body, False
    try:
        value = read_json(answer.body, max_bytes=2 * MAX_TOOL_OUTPUT_BYTES, max_depth=2 * MAX_JSON_DEPTH)
    except JsonError:  # the sanitized text is not JSON
        return None, answer.body, False
    value = _clean_strings(value, clean)  # JSON escapes may have hidden characters
    return value, write_json(value), True


def _clean_strings(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_clean_strings(item, clean) for item in value]
    if isinstance(value, dict):
        return {clean(key): _clean_strings(item, clean) for key, item in value.items()}
    return value


def _explain_mismatch(offered: Offered, value: Any, *, whole: bool) -> str | None:
    """Return why a result does not match the tool's output schema, or None if it does."""
    assert offered.output is not None
    if not whole:
        return "the result was truncated or sanitized, and no longer matches the tool's outputSchema:"
    try:
        offered.output.check({"result": value})
    except (InvalidParametersError, InvalidComponentError) as error:
        return f"the result does not match the tool's outputSchema ({error.message}):"
    return None


def _make_structured_content(value: Any, offered: Offered, caller: Caller) -> Any:
    """Return the structured content: any JSON in the modern revision, an object in the older ones."""
    if caller.modern:
        return value
    schema = offered.definition.get("outputSchema")
    wrapped = not isinstance(value, dict) if schema is None else not is_object(schema)
    return {"result": value} if wrapped else value


def _make_text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
