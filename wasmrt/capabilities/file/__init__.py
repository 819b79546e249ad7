"""Read, write and describe capability files. The reader reports all errors together.

The field types exported here also validate other files, such as manifests of packages.
"""

from __future__ import annotations

from wasmrt.capabilities._fields import (
    INVALID,
    Anything,
    Flag,
    ListOf,
    MapOf,
    Number,
    ObjectSchema,
    Problems,
    Property,
    Text,
    join_path,
    suggest_nearest,
)
from wasmrt.capabilities.file._model import AuthSection, CapabilityFile, ValidationEndpoint, as_tree, format_file, parse
from wasmrt.capabilities.kinds._login import OAuthConfig
from wasmrt.capabilities.sections import SECTIONS, capability_schema

__all__ = [
    "INVALID",
    "SECTIONS",
    "Anything",
    "AuthSection",
    "CapabilityFile",
    "Flag",
    "ListOf",
    "MapOf",
    "Number",
    "OAuthConfig",
    "ObjectSchema",
    "Problems",
    "Property",
    "Text",
    "ValidationEndpoint",
    "as_tree",
    "capability_schema",
    "format_file",
    "join_path",
    "parse",
    "suggest_nearest",
]
