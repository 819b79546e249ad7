"""Plugins: native or WASI programs with a manifest, which read and write one JSON object."""

from __future__ import annotations

from wasmrt.agent.builtin.plugins._load import Plugins, load_plugins
from wasmrt.agent.builtin.plugins._manifest import PluginManifest, read_manifest
from wasmrt.agent.builtin.plugins._protocol import PROTOCOL_VERSION, Mount
from wasmrt.agent.builtin.plugins._tool import PluginTool

__all__ = ["PROTOCOL_VERSION", "Mount", "PluginManifest", "PluginTool", "Plugins", "load_plugins", "read_manifest"]
