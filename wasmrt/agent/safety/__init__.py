"""Prepare the output of a tool for a model: validate, sanitize, redact, truncate and wrap it."""

from __future__ import annotations

from wasmrt.agent.safety._sanitizer import (
    MAX_VALIDATED_BYTES,
    Flag,
    Policy,
    PolicyAction,
    Sanitized,
    Sanitizer,
    Threat,
    ThreatLevel,
    Validator,
)
from wasmrt.agent.safety._wrapping import MAX_MODEL_OUTPUT_BYTES, WrappedOutput, truncate, wrap_tool_output

__all__ = [
    "MAX_MODEL_OUTPUT_BYTES",
    "MAX_VALIDATED_BYTES",
    "Flag",
    "Policy",
    "PolicyAction",
    "Sanitized",
    "Sanitizer",
    "Threat",
    "ThreatLevel",
    "Validator",
    "WrappedOutput",
    "truncate",
    "wrap_tool_output",
]
