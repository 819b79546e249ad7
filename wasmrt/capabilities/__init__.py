"""Capabilities of a tool: those it asks for, those it was granted, their merge, and every decision made by them.

Pure: nothing here reads a file, a clock or the network. Acting on a decision is for the packages above.
The capability file is in `file`, the sentences for people are in `sentences`.
"""

from __future__ import annotations

from wasmrt.capabilities._capabilities import CAPABILITY_SECTIONS, Capabilities, ToolGrant
from wasmrt.capabilities._effects import READ_METHODS, effects_of, reached, within_effects
from wasmrt.capabilities._growth import covers, grown, narrowed, wanted
from wasmrt.capabilities._imports import capabilities_of, uses_section
from wasmrt.capabilities._propose import extended
from wasmrt.capabilities.decide import (
    AllowlistValidator,
    check_addresses,
    check_host,
    describe_request,
    describe_unread,
)
from wasmrt.capabilities.lattice import for_tool, merge, within_write_paths
from wasmrt.capabilities.model import (
    METHODS,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    LocationType,
    LoginCapability,
    OAuthConfig,
    RateLimitConfig,
    SecretsCapability,
    ToolInvokeCapability,
    ToolLimits,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    folded_header,
    is_host_header,
    is_prompt_file,
    is_unseen,
    path_problem,
    plain_path,
    read_secret_name,
)

__all__ = [
    "CAPABILITY_SECTIONS",
    "METHODS",
    "READ_METHODS",
    "AllowlistValidator",
    "Capabilities",
    "CredentialLocation",
    "CredentialMapping",
    "EndpointPattern",
    "HttpCapability",
    "LocationType",
    "LoginCapability",
    "OAuthConfig",
    "RateLimitConfig",
    "SecretsCapability",
    "ToolGrant",
    "ToolInvokeCapability",
    "ToolLimits",
    "WorkspaceCapability",
    "WorkspaceWriteCapability",
    "capabilities_of",
    "check_addresses",
    "check_host",
    "covers",
    "describe_request",
    "describe_unread",
    "effects_of",
    "extended",
    "folded_header",
    "for_tool",
    "grown",
    "is_host_header",
    "is_prompt_file",
    "is_unseen",
    "merge",
    "narrowed",
    "path_problem",
    "plain_path",
    "reached",
    "read_secret_name",
    "uses_section",
    "wanted",
    "within_effects",
    "within_write_paths",
]
