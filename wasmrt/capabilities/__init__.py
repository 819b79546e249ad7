"""What a tool may do: the capability file, its merge with a grant, and every decision made from them.

Pure: nothing here reads a file, a clock or the network. Acting on a decision is for the rooms above.
"""

from __future__ import annotations

from wasmrt.capabilities._addresses import (
    AddressClass,
    Network,
    classify_address,
    is_exempt,
    parse_networks,
)
from wasmrt.capabilities._allowlist import (
    AllowlistValidator,
    describe_request,
    entry_for,
    judge_addresses,
    judge_host,
)
from wasmrt.capabilities._credential import CredentialLocation, CredentialMapping, LocationType, read_secret_name
from wasmrt.capabilities._endpoint import METHODS, EndpointPattern
from wasmrt.capabilities._model import (
    Capabilities,
    HttpCapability,
    RateLimitConfig,
    SecretsCapability,
    ToolInvokeCapability,
    ToolLimits,
    WorkspaceCapability,
)
from wasmrt.capabilities._url import InvalidUrlError, ParsedUrl, parse_url
from wasmrt.capabilities._workspace_path import path_problem

__all__ = [
    "METHODS",
    "AddressClass",
    "AllowlistValidator",
    "Capabilities",
    "CredentialLocation",
    "CredentialMapping",
    "EndpointPattern",
    "HttpCapability",
    "InvalidUrlError",
    "LocationType",
    "Network",
    "ParsedUrl",
    "RateLimitConfig",
    "SecretsCapability",
    "ToolInvokeCapability",
    "ToolLimits",
    "WorkspaceCapability",
    "classify_address",
    "describe_request",
    "entry_for",
    "is_exempt",
    "judge_addresses",
    "judge_host",
    "parse_networks",
    "parse_url",
    "path_problem",
    "read_secret_name",
]
