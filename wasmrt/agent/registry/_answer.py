"""An answer as a model gets it: safe to read, cut to size, and for a failure what the model itself can change."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from wasmrt.agent.registry import _access
from wasmrt.agent.registry._media import split_media
from wasmrt.agent.registry._state import CallState
from wasmrt.agent.registry._system import System
from wasmrt.agent.safety import Flag, Sanitizer, wrap_tool_output
from wasmrt.core.errors import ConfigurationError, LeakError, ToolError
from wasmrt.core.model import Decision, ToolOutput
from wasmrt.core.strict_json import written_by

_ENCODER = json.JSONEncoder(ensure_ascii=False)
_MAX_ERROR_BYTES = 2048
MessageFormat = Literal["openai", "anthropic", "gemini", "mcp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The end of one call, for a model and for the program around it.

    Example:
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
    """The id that the model gave the call."""
    name: str
    text: str
    """For the model: wrapped, without secrets, cut to size."""
    body: str = ""
    """The text without its wrapper, for whoever sends it on as data."""
    output: ToolOutput | None = None
    error: ToolError | None = None
    decisions: tuple[Decision, ...] = ()
    flags: tuple[Flag, ...] = ()
    """Threats that the sanitizer found in the output."""
    truncated: bool = False
    media: tuple[dict[str, Any], ...] | None = None
    """Images, sounds, resources and links beside the text, as MCP has them; None for a result that is data."""
    edited: bool = False
    """True where a person changed the parameters of the call."""
    access: tuple[str, ...] = ()
    """Requests by which a person was asked for what the call was refused; ids are for people."""
    needs_review: bool = False
    """True where the policy of outputs wants a person to look before a model does."""

    @property
    def ok(self) -> bool:
        """True where the tool answered."""
        return self.error is None

    def message(self, style: MessageFormat = "openai") -> dict[str, Any]:
        """Return the answer as the message, or the part of one, that goes back to the model.

        Raises:
            ConfigurationError: the provider is not known.
        """
        if style == "anthropic":
            block = {"type": "tool_result", "tool_use_id": self.id, "content": self.text}
            return block | ({} if self.ok else {"is_error": True})
        if style == "gemini":
            return {"functionResponse": {"name": self.name, "response": {"output" if self.ok else "error": self.text}}}
        if style == "mcp":
            return {"content": [{"type": "text", "text": self.text}], "isError": not self.ok}
        if style != "openai":
            raise ConfigurationError(f"there is no message for {style!r:.40}", hint="openai, anthropic, gemini or mcp")
        return {"role": "tool", "tool_call_id": self.id, "content": self.text}


def clean(system: System, text: str) -> str:
    """Return a text that is no tool's whole answer as a model may read it: sanitized, and without secrets."""
    return system.detector.redact(Sanitizer(system.safety).sanitize(text).text)


def answer_of(state: CallState, identity: str, output: ToolOutput | None, error: ToolError | None) -> ToolAnswer:
    """Return how a call ended, for a model: sanitized, validated, held against the policy of outputs, cut, wrapped."""
    redact = state.system.detector.redact
    name = state.known.offered if state.entry is not None else (state.name[:64] or "tool")
    if output is not None:
        plain, media = _plain(state, output.result)
        try:
            # SECURITY: a component's too, which was scanned: what the sanitizer takes out may have kept a secret apart.
            wrapped = wrap_tool_output(
                name, plain, redact=redact, policy=state.system.safety,
                requires_sanitization=state.tool.requires_sanitization,
                max_output_bytes=state.system.policy.max_output_bytes,
            )  # fmt: skip
        except LeakError as blocked:
            error, output = ToolError(blocked.message, code=blocked.code, hint=blocked.hint), None
        else:
            note = "\n(a person changed the parameters of this call)" if state.edited else ""
            note += _access.note(state)
            return ToolAnswer(
                id=identity, name=name, text=wrapped.text + note, body=wrapped.body, output=output,
                decisions=output.decisions, flags=wrapped.flags, truncated=wrapped.truncated,
                needs_review=wrapped.needs_review, edited=state.edited, media=media, access=state.access_asked,
            )  # fmt: skip
    assert error is not None
    said = wrap_tool_output(
        name, f"Tool execution failed: {error.for_model()}", redact=redact, max_output_bytes=_MAX_ERROR_BYTES
    )
    return ToolAnswer(
        id=identity, name=name, text=said.text, body=said.body, error=error, decisions=error.decisions,
        flags=said.flags, access=state.access_asked,
    )  # fmt: skip


def _plain(state: CallState, result: Any) -> tuple[str, tuple[dict[str, Any], ...] | None]:
    """Return the text of a result, before it is made safe to read, and what is beside it."""
    if isinstance(result, str):
        return result, None
    found = split_media(result, partial(clean, state.system))
    return (written_by(_ENCODER, result), None) if found is None else found
