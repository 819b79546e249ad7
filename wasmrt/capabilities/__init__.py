"""Capabilities of a tool: the request, the grant, the merge of both, and decisions about single uses.

This package only computes: it reads no file, clock or network, and other areas act on its decisions. `kinds` contains
one module for each capability, `file` reads and writes capability files, `sentences` describes capabilities to users.
"""

from __future__ import annotations

from wasmrt.capabilities._amend import (
    Amendment,
    add_to_grant,
    asks_for,
    asks_for_all,
    make_amendment,
    revoke_from_grant,
)
from wasmrt.capabilities._capabilities import Capabilities, ToolGrant, find_kind
from wasmrt.capabilities._effects import effects_of, iter_reachable, within_effects
from wasmrt.capabilities._growth import (
    PatternProposal,
    covers,
    find_missing_entries,
    propose_patterns,
    read_narrower_entry,
    with_added_entries,
    with_fewest_entries,
)
from wasmrt.capabilities._imports import find_capabilities, uses_section
from wasmrt.capabilities._merge import for_tool, merge, within_write_paths
from wasmrt.capabilities.kinds import (
    BY_SECTION,
    KINDS,
    Capability,
    ConfigStoreCapability,
    HttpCapability,
    SecretsCapability,
    ToolInvokeCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
)
from wasmrt.capabilities.kinds._limits import RateLimitConfig, ToolLimits
from wasmrt.capabilities.kinds._login import LoginCapability, OAuthConfig
from wasmrt.capabilities.kinds._program_network import program_network_line, read_program_network
from wasmrt.capabilities.kinds._tools import SOME_TOOL
from wasmrt.capabilities.kinds.http import (
    AllowlistValidator,
    check_addresses,
    check_host,
    describe_request,
    describe_unread,
)
from wasmrt.capabilities.model import (
    METHODS,
    READ_METHODS,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    LocationType,
    fold_header,
    is_host_header,
    is_invisible,
    is_prompt_file,
    path_problem,
    plain_path,
    read_secret_name,
)

__all__ = [
    "BY_SECTION",
    "KINDS",
    "METHODS",
    "READ_METHODS",
    "SOME_TOOL",
    "AllowlistValidator",
    "Amendment",
    "Capabilities",
    "Capability",
    "ConfigStoreCapability",
    "CredentialLocation",
    "CredentialMapping",
    "EndpointPattern",
    "HttpCapability",
    "LocationType",
    "LoginCapability",
    "OAuthConfig",
    "PatternProposal",
    "RateLimitConfig",
    "SecretsCapability",
    "ToolGrant",
    "ToolInvokeCapability",
    "ToolLimits",
    "WorkspaceCapability",
    "WorkspaceWriteCapability",
    "add_to_grant",
    "asks_for",
    "asks_for_all",
    "check_addresses",
    "check_host",
    "covers",
    "describe_request",
    "describe_unread",
    "effects_of",
    "find_capabilities",
    "find_kind",
    "find_missing_entries",
    "fold_header",
    "for_tool",
    "is_host_header",
    "is_invisible",
    "is_prompt_file",
    "iter_reachable",
    "make_amendment",
    "merge",
    "path_problem",
    "plain_path",
    "program_network_line",
    "propose_patterns",
    "read_narrower_entry",
    "read_program_network",
    "read_secret_name",
    "revoke_from_grant",
    "uses_section",
    "with_added_entries",
    "with_fewest_entries",
    "within_effects",
    "within_write_paths",
]
