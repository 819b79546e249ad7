"""Make a tool's output fit for a reader that is a model: sanitizer, validator, policy, truncation, wrapping.

Pure: text in, text out.
"""

from __future__ import annotations

from wasmrt.agent.safety._policy import Flag, Policy, PolicyAction, Threat, ThreatLevel
from wasmrt.agent.safety._sanitizer import Sanitized, Sanitizer
from wasmrt.agent.safety._truncation import MAX_MODEL_OUTPUT_BYTES, truncate
from wasmrt.agent.safety._validator import MAX_VALIDATED_BYTES, Validator
from wasmrt.agent.safety._wrapping import WrappedOutput, wrap_tool_output

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
