"""The capability file: read with every mistake at once, and written in one spelling."""

from __future__ import annotations

from wasmrt.capabilities.file._auth import AuthSection, SetupSecret, ValidationEndpoint
from wasmrt.capabilities.file._format import as_tree, format_file
from wasmrt.capabilities.file._model import CapabilityFile
from wasmrt.capabilities.file._parse import parse
from wasmrt.capabilities.model import OAuthConfig

__all__ = [
    "AuthSection",
    "CapabilityFile",
    "OAuthConfig",
    "SetupSecret",
    "ValidationEndpoint",
    "as_tree",
    "format_file",
    "parse",
]
