"""A tool's answer as the result of `tools/call`: the same data as structured content and as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.agent.registry import ToolAnswer
from wasmrt.core.errors import InvalidComponentError, InvalidParametersError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_TOOL_OUTPUT_BYTES
from wasmrt.core.strict_json import JsonError, read_json, write_json
from wasmrt.interop.mcp.server.protocol import Caller
from wasmrt.interop.mcp.server.tools._offer import Offered, is_object

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
    except JsonError:  # what was made safe is no JSON any more
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
    """Say why an answer is not what the tool's schema of results promises; None where it is."""
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
