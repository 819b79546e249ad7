"""Describe capabilities to users: everything that they allow, differences between two versions, and warnings."""

from __future__ import annotations

from wasmrt.capabilities.kinds import Change
from wasmrt.capabilities.kinds._login import explain_logins
from wasmrt.capabilities.kinds.http import ANYWHERE
from wasmrt.capabilities.sentences._explain import diff, explain, explain_added, review, tool_groups

__all__ = [
    "ANYWHERE",
    "Change",
    "diff",
    "explain",
    "explain_added",
    "explain_logins",
    "review",
    "tool_groups",
]
