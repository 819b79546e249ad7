"""Capabilities in sentences for people: what they allow, what changed between two, what deserves a second look."""

from __future__ import annotations

from wasmrt.capabilities.sentences._diff import CapabilityDiff, diff
from wasmrt.capabilities.sentences._explain import explain, tool_groups
from wasmrt.capabilities.sentences._logins import Change, explain_logins
from wasmrt.capabilities.sentences._phrases import ANYWHERE
from wasmrt.capabilities.sentences._review import FileWarning, review

__all__ = [
    "ANYWHERE",
    "CapabilityDiff",
    "Change",
    "FileWarning",
    "diff",
    "explain",
    "explain_logins",
    "review",
    "tool_groups",
]
