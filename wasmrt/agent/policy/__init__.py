"""An operator's policy for tools: presets, the filter for external tools, rules for single tools, and flow rules."""

from __future__ import annotations

from wasmrt.agent.policy._decide import (
    ExfiltrationGuard,
    ExternalFilter,
    Names,
    Permission,
    Preset,
    decide_exfiltration,
    decide_filter,
    decide_permission,
    decide_preset,
    fits,
    remove_aliases,
)
from wasmrt.agent.policy._flows import (
    FLOW_PRESETS,
    OUTGOING,
    Carries,
    FlowAction,
    FlowFinding,
    FlowPolicy,
    decide_flow,
    flow_policy,
)
from wasmrt.agent.policy._model import (
    NO_TIGHTENING,
    ApproverKind,
    ToolPolicy,
    ToolRule,
)
from wasmrt.agent.policy._read import POLICY_SETTINGS, read_policy

__all__ = [
    "FLOW_PRESETS",
    "NO_TIGHTENING",
    "OUTGOING",
    "POLICY_SETTINGS",
    "ApproverKind",
    "Carries",
    "ExfiltrationGuard",
    "ExternalFilter",
    "FlowAction",
    "FlowFinding",
    "FlowPolicy",
    "Names",
    "Permission",
    "Preset",
    "ToolPolicy",
    "ToolRule",
    "decide_exfiltration",
    "decide_filter",
    "decide_flow",
    "decide_permission",
    "decide_preset",
    "fits",
    "flow_policy",
    "read_policy",
    "remove_aliases",
]
