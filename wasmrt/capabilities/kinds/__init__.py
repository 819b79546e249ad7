"""The kinds of capabilities, with one module for each. `KINDS` has the order of capability files and of sentences."""

from __future__ import annotations

from wasmrt.capabilities.kinds._capability import Capability, Change, FileWarning, Numbers
from wasmrt.capabilities.kinds._config_store import ConfigStoreCapability
from wasmrt.capabilities.kinds._secrets import SecretsCapability
from wasmrt.capabilities.kinds._tools import ToolInvokeCapability
from wasmrt.capabilities.kinds._workspace import WorkspaceCapability, WorkspaceWriteCapability
from wasmrt.capabilities.kinds.http import HttpCapability

KINDS: tuple[type[Capability], ...] = (
    HttpCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    SecretsCapability,
    ConfigStoreCapability,
    ToolInvokeCapability,
)
BY_SECTION = {kind.section: kind for kind in KINDS}
"""The kinds of capabilities, by the names of their sections in a capability file."""

__all__ = [
    "BY_SECTION",
    "KINDS",
    "Capability",
    "Change",
    "ConfigStoreCapability",
    "FileWarning",
    "HttpCapability",
    "Numbers",
    "SecretsCapability",
    "ToolInvokeCapability",
    "WorkspaceCapability",
    "WorkspaceWriteCapability",
]
