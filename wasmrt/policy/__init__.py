"""An operator's policy over tools: presets, the filter of external tools, rules for single tools. It runs nothing."""

from __future__ import annotations

from wasmrt.policy._decide import decide_filter, decide_guard, decide_permission, decide_preset
from wasmrt.policy._model import (
    DEFAULT_APPROVAL_SECONDS,
    NO_TIGHTENING,
    ApproverKind,
    ExfiltrationGuard,
    ExternalFilter,
    Permission,
    Preset,
    ToolPolicy,
    ToolRule,
    fits,
)
from wasmrt.policy._read import POLICY_SECTIONS, read_policy

__all__ = [
    "DEFAULT_APPROVAL_SECONDS",
    "NO_TIGHTENING",
    "POLICY_SECTIONS",
    "ApproverKind",
    "ExfiltrationGuard",
    "ExternalFilter",
    "Permission",
    "Preset",
    "ToolPolicy",
    "ToolRule",
    "decide_filter",
    "decide_guard",
    "decide_permission",
    "decide_preset",
    "fits",
    "read_policy",
]
