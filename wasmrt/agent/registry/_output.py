"""Scan the output of a call for secrets, sanitize it, and format it for a model."""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from wasmrt.agent.registry import _access
from wasmrt.agent.registry._services import RegistryServices
from wasmrt.agent.registry._state import CallState
from wasmrt.agent.safety import Flag, Sanitizer, wrap_tool_output
from wasmrt.core.errors import ConfigurationError, GuestOutputError, LeakError, ToolError
from wasmrt.core.limits import KIB, MAX_TOOL_OUTPUT_BYTES, MIB
from wasmrt.core.model import Decision, LogEntry, Reason, ToolOutput
from wasmrt.core.strict_json import JsonError, encode_json, utf8_size, write_json
from wasmrt.egress.leaks import Action, LeakDetector

_PLAIN = "return plain, uncompressed data from the tool"


def scan_output(state: CallState, output: ToolOutput) -> ToolOutput:
    """Return the output without secrets.

    Raises:
        LeakError: the output contains a secret that cannot be removed, or the output could not be scanned.
        GuestOutputError: the output is not JSON data, or is too large.
    """
    if state.known.is_component:
        return output
    try:
        text = write_json(output.result)
    except JsonError as error:
        raise GuestOutputError(f"the tool's output is {error}", hint="return JSON data from the tool") from error
    if utf8_size(text) > MAX_TOOL_OUTPUT_BYTES:
        raise GuestOutputError(
            f"the tool's output is over {MAX_TOOL_OUTPUT_BYTES:,} bytes", code="output-too-large",
            hint="return less data from the tool",
        )  # fmt: skip
    if not output.usage.wall_seconds:
        seconds = round(output.duration or time.monotonic() - state.request.started, 6)
        usage = output.usage._replace(wall_seconds=seconds, output_bytes=len(text))
        output = output._replace(duration=seconds, usage=usage)
    return _remove_secrets(state, output._replace(logs=clean_logs(state, output.logs)), text)


def clean_logs(state: CallState, logs: tuple[LogEntry, ...]) -> tuple[LogEntry, ...]:
    """Return log entries without secrets."""
    redact = state.services.detector.redact
    return tuple(entry._replace(message=redact(entry.message)) for entry in logs)


def _remove_secrets(state: CallState, output: ToolOutput, text: str) -> ToolOutput:
    detector, name = state.services.detector, state.known.name
    report = detector.scan(text)
    if report.unscanned is not None:
        passed = not report.should_block
        state.decisions.append(Decision(passed, Reason.NOT_SCANNED, report.unscanned, _PLAIN, "result", name))
    if report.should_block:
        reason = "could not be scanned for secrets" if report.unscanned else "contains a secret"
        raise LeakError(f"the tool's output {reason} and was withheld", hint="remove the secrets from its output")
    own = None if output.raw in (None, text) else _clean_raw(detector, output.raw)
    if all(match.action is Action.WARN for match in report.matches):
        return output._replace(raw=text if own is None else own)
    clean = _redact_value(detector, output.result)
    text = write_json(clean)
    # SECURITY: a secret that spans several values cannot be removed from them.
    if detector.redact(text) != text:
        raise LeakError("the tool's output contains a secret that spans several values, and was withheld")
    return output._replace(result=clean, raw=text if own is None else own)


def _clean_raw(detector: LeakDetector, raw: object) -> str:
    """Remove secrets from the raw text of an output. The tool's function set this text itself."""
    if not isinstance(raw, str):
        raise GuestOutputError(f"raw must be a string, got {type(raw).__name__}", hint="set raw to text, or to None")
    if len(raw) > MAX_TOOL_OUTPUT_BYTES:
        raise GuestOutputError(
            f"the tool's raw text is over {MAX_TOOL_OUTPUT_BYTES:,} characters", code="output-too-large",
            hint="return less data from the tool",
        )  # fmt: skip
    # SECURITY: raw is as untrusted as the result.
    report = detector.scan(raw)
    if report.should_block:
        raise LeakError("the tool's raw text was withheld", hint="remove the secrets from its output")
    return detector.redact(raw) if report.matches or report.unscanned else raw


def _redact_value(detector: LeakDetector, value: Any) -> Any:
    if isinstance(value, str):
        return detector.redact(value)
    if isinstance(value, list):
        return [_redact_value(detector, item) for item in value]
    if isinstance(value, dict):
        return {detector.redact(key): _redact_value(detector, item) for key, item in value.items()}
    return value


MAX_BLOCKS = 64
MAX_MEDIA_BYTES = 4 * MIB
"""Maximum size of all media of a result, as base64 text."""
_PIECE_CHARS = 256 * KIB
"""Characters of base64 text that are decoded in one C call; a multiple of four."""
_TYPE = re.compile(r"[a-z]+/[a-zA-Z0-9][a-zA-Z0-9.+-]{0,100}")
_URI = re.compile(r"[a-z][a-z0-9+.-]{0,30}:[\x21-\x7e]{1,2000}")
_LINKED = re.compile(r"https?:", re.IGNORECASE)
Clean = Callable[[str], str]
Block = dict[str, Any]


def split_media(result: Any, clean: Clean) -> tuple[str, tuple[Block, ...]] | None:
    """Return the text and the media of a result that consists of MCP content blocks; None for other results.

    `clean` sanitizes text. The result is also None if a block is malformed, or if the blocks exceed the limits.
    """
    blocks = result.get("content") if isinstance(result, dict) and len(result) == 1 else None
    if not isinstance(blocks, list) or not 0 < len(blocks) <= MAX_BLOCKS:
        return None
    lines, kept, size = [], [], 0
    for block in blocks:
        read = _READERS[block["type"]](block, clean) if isinstance(block, dict) and _is_known(block) else None
        if read is None:
            return None
        line, media = read
        lines.append(line)
        if media is not None:
            kept.append(media)
            inside = media.get("resource", media)
            size += sum(len(value) for value in inside.values() if isinstance(value, str))
    return ("\n".join(lines), tuple(kept)) if size <= MAX_MEDIA_BYTES else None


def _is_known(block: dict[str, Any]) -> bool:
    return isinstance(block.get("type"), str) and block["type"] in _READERS


def _read_text(block: Block, _: Clean) -> tuple[str, Block | None] | None:
    return (block["text"], None) if isinstance(block.get("text"), str) else None


def _read_media(block: Block, _: Clean) -> tuple[str, Block | None] | None:
    kind, data = block.get("mimeType"), block.get("data")
    if not isinstance(kind, str) or not kind.startswith(f"{block['type']}/") or not _TYPE.fullmatch(kind):
        return None
    size = _count_decoded_bytes(data)
    if size is None:
        return None
    return f"[{kind}, {size} bytes]", {"type": block["type"], "data": data, "mimeType": kind}


def _read_link(block: Block, clean: Clean) -> tuple[str, Block | None] | None:
    uri, name = block.get("uri"), block.get("name")
    # SECURITY: a client may open the link, so it must not refer to a file or a program on the client's machine.
    if not isinstance(uri, str) or not _URI.fullmatch(uri) or not _LINKED.match(uri) or not isinstance(name, str):
        return None
    link = {"type": "resource_link", "uri": uri, "name": clean(name)[:200]}
    if isinstance(block.get("description"), str):
        link["description"] = clean(block["description"])[:1000]
    if isinstance(block.get("mimeType"), str) and _TYPE.fullmatch(block["mimeType"]):
        link["mimeType"] = block["mimeType"]
    return f"[link to {uri}]", link


def _read_resource(block: Block, clean: Clean) -> tuple[str, Block | None] | None:
    inner = block.get("resource")
    uri = inner.get("uri") if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(uri, str) or not _URI.fullmatch(uri):
        return None
    kind = inner.get("mimeType", "text/plain")
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        return None
    made: Block = {"uri": uri, "mimeType": kind}
    if isinstance(inner.get("text"), str):
        made["text"] = clean(inner["text"])
    elif _count_decoded_bytes(inner.get("blob")) is not None:
        made["blob"] = inner["blob"]
    else:
        return None
    return f"[resource {uri}]", {"type": "resource", "resource": made}


def _count_decoded_bytes(data: Any) -> int | None:
    """Return the decoded size of base64 text, or None if the text is invalid or too large."""
    if not isinstance(data, str) or len(data) > MAX_MEDIA_BYTES:
        return None
    try:
        pieces = [data[start : start + _PIECE_CHARS] for start in range(0, len(data), _PIECE_CHARS)]
        # Only the last piece may have padding.
        sizes = [len(base64.b64decode(piece, validate=True)) for piece in pieces]
    except (binascii.Error, ValueError):
        return None
    return sum(sizes) if all(size == _PIECE_CHARS // 4 * 3 for size in sizes[:-1]) else None


_READERS: dict[str, Callable[[Block, Clean], tuple[str, Block | None] | None]] = {
    "text": _read_text,
    "image": _read_media,
    "audio": _read_media,
    "resource_link": _read_link,
    "resource": _read_resource,
}


_ENCODER = json.JSONEncoder(ensure_ascii=False)
_MAX_ERROR_BYTES = 2048
MessageFormat = Literal["openai", "anthropic", "gemini", "mcp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The outcome of one call, for the model and for the program.

    Examples:
        >>> from wasmrt import ToolCall, ToolRegistry, tool
        >>> @tool(effects=[])
        ... def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> registry = ToolRegistry()
        >>> _ = registry.register(add)
        >>> answer = registry.answer(ToolCall("call-1", "add", {"a": 1, "b": 2}))
        >>> answer.ok, answer.output.result, answer.message()["tool_call_id"]
        (True, 3, 'call-1')
    """

    id: str
    """The ID that the model gave the call."""
    name: str
    text: str
    """The text for the model: wrapped, without secrets, and truncated to the limit."""
    body: str = ""
    """The text without the wrapper, for programs that pass it on as data."""
    output: ToolOutput | None = None
    error: ToolError | None = None
    decisions: tuple[Decision, ...] = ()
    flags: tuple[Flag, ...] = ()
    """Threats that the sanitizer found in the output."""
    truncated: bool = False
    media: tuple[dict[str, Any], ...] | None = None
    """Images, audio, resources and links, as MCP content blocks; None for a result that is plain data."""
    edited: bool = False
    """True if the approver edited the parameters of the call."""
    access: tuple[str, ...] = ()
    """IDs of the access requests that resulted from the call. Do not show them to the model."""
    needs_review: bool = False
    """True if the safety policy requires that a user reviews the output before the model reads it."""

    @property
    def ok(self) -> bool:
        """True if the call succeeded."""
        return self.error is None

    def message(self, style: MessageFormat = "openai") -> dict[str, Any]:
        """Return a message that reports the outcome to the model, or a content block for such a message.

        Raises:
            ConfigurationError: `style` is not a known message format.
        """
        if style == "anthropic":
            block = {"type": "tool_result", "tool_use_id": self.id, "content": self.text}
            return block | ({} if self.ok else {"is_error": True})
        if style == "gemini":
            return {"functionResponse": {"name": self.name, "response": {"output" if self.ok else "error": self.text}}}
        if style == "mcp":
            return {"content": [{"type": "text", "text": self.text}], "isError": not self.ok}
        if style != "openai":
            raise ConfigurationError(f"unknown message format: {style!r:.40}", hint="openai, anthropic, gemini or mcp")
        return {"role": "tool", "tool_call_id": self.id, "content": self.text}


def clean(services: RegistryServices, text: str) -> str:
    """Return text without secrets, and sanitized for a model. For tool output, use `build_answer`."""
    return services.detector.redact(Sanitizer(services.safety).sanitize(text).text)


def build_answer(state: CallState, identity: str, output: ToolOutput | None, error: ToolError | None) -> ToolAnswer:
    """Return the outcome of a call for a model: sanitized, checked by the safety policy, truncated and wrapped."""
    redact = state.services.detector.redact
    name = state.known.offered if state.entry is not None else (state.request.name[:64] or "tool")
    if output is not None:
        plain, media = _split_result(state, output.result)
        try:
            # SECURITY: redact the scanned output again, because sanitizing may join the parts of a secret.
            wrapped = wrap_tool_output(
                name, plain, redact=redact, policy=state.services.safety,
                requires_sanitization=state.tool.requires_sanitization,
                max_output_bytes=state.services.policy.max_output_bytes,
            )  # fmt: skip
        except LeakError as blocked:
            error, output = ToolError(blocked.message, code=blocked.code, hint=blocked.hint), None
        else:
            note = "\n(the approver edited the parameters of this call)" if state.edited else ""
            note += _access.access_note(state)
            return ToolAnswer(
                id=identity, name=name, text=wrapped.text + note, body=wrapped.body, output=output,
                decisions=output.decisions, flags=wrapped.flags, truncated=wrapped.truncated,
                needs_review=wrapped.needs_review, edited=state.edited, media=media, access=state.access_requests,
            )  # fmt: skip
    assert error is not None
    wrapped = wrap_tool_output(
        name, f"Tool execution failed: {error.for_model()}", redact=redact, max_output_bytes=_MAX_ERROR_BYTES
    )
    return ToolAnswer(
        id=identity, name=name, text=wrapped.text, body=wrapped.body, error=error, decisions=error.decisions,
        flags=wrapped.flags, access=state.access_requests,
    )  # fmt: skip


def _split_result(state: CallState, result: Any) -> tuple[str, tuple[dict[str, Any], ...] | None]:
    """Return the text of a result before sanitizing, and its media."""
    if isinstance(result, str):
        return result, None
    found = split_media(result, partial(clean, state.services))
    return (encode_json(_ENCODER, result), None) if found is None else found
