"""Prepare the output of a tool for a model: validate, sanitize, redact, truncate and wrap it."""

from __future__ import annotations

from wasmrt.agent.safety._sanitizer import (
    Flag,
    Policy,
    PolicyAction,
    Sanitizer,
    Threat,
    ThreatLevel,
    Validator,
)
from wasmrt.agent.safety._wrapping import truncate, wrap_tool_output

__all__ = [
    "Flag",
    "Policy",
    "PolicyAction",
    "Sanitizer",
    "Threat",
    "ThreatLevel",
    "Validator",
    "truncate",
    "wrap_tool_output",
]
