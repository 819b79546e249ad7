"""The capabilities, one module for each. `KINDS` lists them in the order of the file and of the sentences."""

from __future__ import annotations

from wasmrt.capabilities.kinds._capability import Capability, Change, FileWarning, Numbers, widest
from wasmrt.capabilities.kinds._secrets import SecretsCapability
from wasmrt.capabilities.kinds._tools import ToolInvokeCapability
from wasmrt.capabilities.kinds._workspace import WorkspaceCapability, WorkspaceWriteCapability
from wasmrt.capabilities.kinds.http import HttpCapability

KINDS: tuple[type[Capability], ...] = (
    HttpCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    SecretsCapability,
    ToolInvokeCapability,
)
BY_SECTION = {kind.section: kind for kind in KINDS}
"""Capabilities by their section name in a file."""

__all__ = [
    "BY_SECTION",
    "KINDS",
    "Capability",
    "Change",
    "FileWarning",
    "HttpCapability",
    "Numbers",
    "SecretsCapability",
    "ToolInvokeCapability",
    "WorkspaceCapability",
    "WorkspaceWriteCapability",
    "widest",
]
