"""Describe capabilities to users: everything that they allow, differences between two versions, and warnings."""

from __future__ import annotations

from wasmrt.capabilities.kinds import Change, FileWarning
from wasmrt.capabilities.kinds._login import explain_logins
from wasmrt.capabilities.kinds.http import ANYWHERE
from wasmrt.capabilities.sentences._diff import CapabilityDiff, diff
from wasmrt.capabilities.sentences._explain import explain, explain_added, tool_groups
from wasmrt.capabilities.sentences._review import review

__all__ = [
    "ANYWHERE",
    "CapabilityDiff",
    "Change",
    "FileWarning",
    "diff",
    "explain",
    "explain_added",
    "explain_logins",
    "review",
    "tool_groups",
]
