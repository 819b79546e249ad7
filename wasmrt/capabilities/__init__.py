"""What a tool may do: the capability file, its merge with a grant, and every decision made from them.

Pure: nothing here reads a file, a clock or the network. Acting on a decision is for the rooms above.
Each name loads its own part when it is first used: a run without a sidecar never loads the file format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt._lazy import lazy

if TYPE_CHECKING:
    from wasmrt.capabilities._addresses import AddressClass, Network, classify_address, is_exempt, parse_networks
    from wasmrt.capabilities._allowlist import (
        AllowlistValidator,
        describe_request,
        describe_unread,
        entry_for,
        judge_addresses,
        judge_host,
    )
    from wasmrt.capabilities._auth import AuthSection, OAuthConfig, SetupSecret, ValidationEndpoint
    from wasmrt.capabilities._credential import CredentialLocation, CredentialMapping, LocationType, read_secret_name
    from wasmrt.capabilities._diff import CapabilityDiff, Change, diff
    from wasmrt.capabilities._endpoint import METHODS, EndpointPattern
    from wasmrt.capabilities._file import CapabilityFile
    from wasmrt.capabilities._file_shape import capability_schema
    from wasmrt.capabilities._format import as_tree, format_file
    from wasmrt.capabilities._host_headers import folded_header, is_host_header
    from wasmrt.capabilities._imports import powers_of
    from wasmrt.capabilities._merge import merge
    from wasmrt.capabilities._model import Capabilities, ToolLimits
    from wasmrt.capabilities._parse import parse
    from wasmrt.capabilities._powers import (
        HttpCapability,
        RateLimitConfig,
        SecretsCapability,
        ToolInvokeCapability,
        WorkspaceCapability,
    )
    from wasmrt.capabilities._propose import propose
    from wasmrt.capabilities._review import Remark, review
    from wasmrt.capabilities._url import InvalidUrlError, ParsedUrl, parse_url
    from wasmrt.capabilities._words import explain
    from wasmrt.capabilities._workspace_path import path_problem

_LATER = {
    "_addresses": ("AddressClass", "Network", "classify_address", "is_exempt", "parse_networks"),
    "_allowlist": (
        "AllowlistValidator",
        "describe_request",
        "describe_unread",
        "entry_for",
        "judge_addresses",
        "judge_host",
    ),
    "_credential": ("CredentialLocation", "CredentialMapping", "LocationType", "read_secret_name"),
    "_endpoint": ("METHODS", "EndpointPattern"),
    "_model": ("Capabilities", "ToolLimits"),
    "_powers": (
        "HttpCapability",
        "RateLimitConfig",
        "SecretsCapability",
        "ToolInvokeCapability",
        "WorkspaceCapability",
    ),
    "_workspace_path": ("path_problem",),
    "_diff": ("CapabilityDiff", "Change", "diff"),
    "_auth": ("AuthSection", "OAuthConfig", "SetupSecret", "ValidationEndpoint"),
    "_file": ("CapabilityFile",),
    "_file_shape": ("capability_schema",),
    "_format": ("as_tree", "format_file"),
    "_host_headers": ("folded_header", "is_host_header"),
    "_imports": ("powers_of",),
    "_merge": ("merge",),
    "_parse": ("parse",),
    "_propose": ("propose",),
    "_review": ("Remark", "review"),
    "_url": ("InvalidUrlError", "ParsedUrl", "parse_url"),
    "_words": ("explain",),
}


__getattr__ = lazy(__name__, _LATER, globals())


__all__ = [
    "METHODS",
    "AddressClass",
    "AllowlistValidator",
    "AuthSection",
    "Capabilities",
    "CapabilityDiff",
    "CapabilityFile",
    "Change",
    "CredentialLocation",
    "CredentialMapping",
    "EndpointPattern",
    "HttpCapability",
    "InvalidUrlError",
    "LocationType",
    "Network",
    "OAuthConfig",
    "ParsedUrl",
    "RateLimitConfig",
    "Remark",
    "SecretsCapability",
    "SetupSecret",
    "ToolInvokeCapability",
    "ToolLimits",
    "ValidationEndpoint",
    "WorkspaceCapability",
    "as_tree",
    "capability_schema",
    "classify_address",
    "describe_request",
    "describe_unread",
    "diff",
    "entry_for",
    "explain",
    "folded_header",
    "format_file",
    "is_exempt",
    "is_host_header",
    "judge_addresses",
    "judge_host",
    "merge",
    "parse",
    "parse_networks",
    "parse_url",
    "path_problem",
    "powers_of",
    "propose",
    "read_secret_name",
    "review",
]
