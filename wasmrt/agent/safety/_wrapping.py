"""Validate, sanitize, redact and truncate the output of a tool, in this order, and wrap it for a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wasmrt.agent.safety._sanitizer import (
    Flag,
    Policy,
    PolicyAction,
    Sanitized,
    Sanitizer,
    Validator,
    protect_wrapper,
)
from wasmrt.core.errors import ConfigurationError, LeakError
from wasmrt.core.limits import KIB
from wasmrt.core.strict_json import parse_json

MAX_MODEL_OUTPUT_BYTES = 16 * KIB


def truncate(text: str, limit: int = MAX_MODEL_OUTPUT_BYTES) -> tuple[str, bool]:
    """Cut a text to `limit` bytes of UTF-8, between two characters, and add a notice. Also return whether it was cut.

    If possible, JSON text remains valid JSON: long lists, objects and strings are shortened, and the number of omitted
    items is added.

    SECURITY: scan a text before it is truncated. A scan would not recognize a secret that was cut.
    """
    data = text.encode("utf-8")
    if len(data) <= limit:
        return text, False
    shown = _shorten_json(text, limit) or data[:limit].decode("utf-8", "ignore")
    return f"{shown}\n[output truncated — original size: {len(data):,} bytes]", True


_SHAPES = ((256, 2048), (64, 1024), (32, 512), (16, 256), (8, 128), (4, 64), (2, 32))
"""Each pair has the maximum number of entries in a list or object, and of characters in a string.

JSON text is shortened with the first pair for which it becomes small enough.
"""
_MAX_DEPTH = 64


def _shorten_json(text: str, limit: int) -> str | None:
    """Shorten JSON text to `limit` bytes. Return None if the text is not JSON, or remains too large."""
    if text[:1] not in ("{", "["):
        return None
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    for entries, characters in _SHAPES:
        kept = json.dumps(_shorten(value, entries, characters, _MAX_DEPTH), ensure_ascii=False)
        if len(kept.encode("utf-8", "replace")) <= limit:
            return kept
    return None


def _shorten(value: Any, entries: int, characters: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= characters else f"{value[:characters]}… [{len(value) - characters:,} more]"
    if not isinstance(value, (dict, list)):
        return value
    if depth == 0:
        return "…"
    more = [f"[{len(value) - entries:,} more]"] if len(value) > entries else []
    if isinstance(value, list):
        return [_shorten(item, entries, characters, depth - 1) for item in value[:entries]] + more
    items = list(value.items())[:entries]
    kept = {key: _shorten(item, entries, characters, depth - 1) for key, item in items}
    return kept | ({"…": more[0]} if more else {})


_MAX_NAME_CHARS = 128


@dataclass(frozen=True, slots=True)
class WrappedOutput:
    """A tool's output, prepared for a model."""

    text: str
    body: str
    """The prepared text without the wrapper."""
    flags: tuple[Flag, ...]
    truncated: bool
    needs_review: bool


def wrap_tool_output(
    name: str,
    output: str,
    *,
    redact: Callable[[str], str],
    policy: Policy | None = None,
    requires_sanitization: bool = True,
    max_output_bytes: int = MAX_MODEL_OUTPUT_BYTES,
) -> WrappedOutput:
    """Validate, sanitize, redact and truncate a tool's output, and wrap it for a model.

    `redact` is always called. The function replaces the secrets in a text, or raises an error to withhold the text.
    Pass `requires_sanitization=False` for tools that return the agent's own text. The wrapper and the truncation notice
    are not included in `max_output_bytes`.

    Raises:
        LeakError: the policy blocks a threat that the output contains.
        ConfigurationError: `max_output_bytes` is not positive, or the name is empty or too long.
    """
    if max_output_bytes < 1 or not 0 < len(name) <= _MAX_NAME_CHARS:
        raise ConfigurationError(
            f"expected a tool name of 1 to {_MAX_NAME_CHARS} characters and a positive max_output_bytes, "
            f"got a name of {len(name)} characters and {max_output_bytes}"
        )
    policy = policy or Policy()
    valid = Validator().validate(output)
    if requires_sanitization:
        cleaned = Sanitizer(policy).sanitize(valid.text)
    else:
        cleaned = Sanitized(protect_wrapper(valid.text))
    flags = cleaned.flags + valid.flags
    _enforce_policy(policy, flags, name)
    text, truncated = truncate(redact(cleaned.text), max_output_bytes)
    if truncated:
        # SECURITY: truncating JSON parses and rewrites the text, which replaces escapes by the characters themselves.
        text = Validator().validate(text).text
        text = redact(Sanitizer(policy).sanitize(text).text if requires_sanitization else protect_wrapper(text))
    sanitized = "true" if requires_sanitization else "false"
    wrapped = f'<tool_output name="{_escape_attribute(name)}" sanitized="{sanitized}">\n{text}\n</tool_output>'
    review = any(policy.action(flag.threat) is PolicyAction.REVIEW for flag in flags)
    return WrappedOutput(wrapped, text, flags, truncated, review)


def _enforce_policy(policy: Policy, flags: tuple[Flag, ...], name: str) -> None:
    blocked = ", ".join(str(f.threat) for f in flags if policy.action(f.threat) is PolicyAction.BLOCK)
    if blocked:
        message = f"the output of {_escape_attribute(name)} was blocked by policy: {blocked}"
        raise LeakError(
            message, hint="to pass such output on, change the action of the safety policy for this threat level"
        )


def _escape_attribute(name: str) -> str:
    return re.sub(r"[^\w.:/@-]", "_", name)
