"""Wrap a tool's output for a model: validated, sanitized, redacted, truncated, in that order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from wasmrt.agent.safety._policy import Flag, Policy, PolicyAction
from wasmrt.agent.safety._sanitizer import Sanitized, Sanitizer, protect_wrapper
from wasmrt.agent.safety._truncation import MAX_MODEL_OUTPUT_BYTES, truncate
from wasmrt.agent.safety._validator import Validator
from wasmrt.core.errors import ConfigurationError, LeakError

_MAX_NAME_CHARS = 128


@dataclass(frozen=True, slots=True)
class WrappedOutput:
    """A tool's output as a model may read it."""

    text: str
    body: str
    """The text without the wrapper."""
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

    `redact` replaces the secrets in a text, or raises to withhold it; it is never left out.
    `requires_sanitization=False` is for tools whose output is the agent's own. The wrapper and the notice of a cut are
    on top of `max_output_bytes`.

    Raises:
        LeakError: the policy blocks the output.
        ConfigurationError: `max_output_bytes` is not positive, or the name is empty or too long.
    """
    if max_output_bytes < 1 or not 0 < len(name) <= _MAX_NAME_CHARS:
        raise ConfigurationError(f"a wrapper needs a name of 1 to {_MAX_NAME_CHARS} characters and a positive size")
    policy = policy or Policy()
    valid = Validator().validate(output)
    if requires_sanitization:
        cleaned = Sanitizer(policy).sanitize(valid.text)
    else:
        cleaned = Sanitized(protect_wrapper(valid.text))
    flags = cleaned.flags + valid.flags
    _enforce(policy, flags, name)
    text, truncated = truncate(redact(cleaned.text), max_output_bytes)
    if truncated:
        # SECURITY: JSON that was cut was read and written anew: what stood there as an escape stands there itself now.
        text = Validator().validate(text).text
        text = redact(Sanitizer(policy).sanitize(text).text if requires_sanitization else protect_wrapper(text))
    sanitized = "true" if requires_sanitization else "false"
    wrapped = f'<tool_output name="{_attribute(name)}" sanitized="{sanitized}">\n{text}\n</tool_output>'
    review = any(policy.action(flag.threat) is PolicyAction.REVIEW for flag in flags)
    return WrappedOutput(wrapped, text, flags, truncated, review)


def _enforce(policy: Policy, flags: tuple[Flag, ...], name: str) -> None:
    blocked = ", ".join(str(f.threat) for f in flags if policy.action(f.threat) is PolicyAction.BLOCK)
    if blocked:
        message = f"the output of {_attribute(name)} was blocked by policy: {blocked}"
        raise LeakError(message, hint="loosen the policy for this level, if that is meant")


def _attribute(name: str) -> str:
    return re.sub(r"[^\w.:/@-]", "_", name)
