"""Plugins: manifests with a program each, native or WASI, asked and answering in one JSON object."""

from __future__ import annotations

from wasmrt.plugins._load import Plugins, load_plugins
from wasmrt.plugins._manifest import PluginManifest, read_manifest
from wasmrt.plugins._protocol import PROTOCOL_VERSION, Mount
from wasmrt.plugins._tool import PluginTool

__all__ = [
    "PROTOCOL_VERSION",
    "Mount",
    "PluginManifest",
    "PluginTool",
    "Plugins",
    "load_plugins",
    "read_manifest",
]
