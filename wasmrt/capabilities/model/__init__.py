"""The parts of a grant: frozen values that cannot be made wrong. Each reader here knows one spelling."""

from __future__ import annotations

from wasmrt.capabilities.model._capability import (
    MAX_HTTP_TIMEOUT_SECONDS,
    MAX_REQUESTS,
    HttpCapability,
    RateLimitConfig,
    SecretsCapability,
    ToolInvokeCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    glob_covers,
    read_alias,
    read_secret_glob,
    read_tool_name,
    usual_ports,
    with_ports,
)
from wasmrt.capabilities.model._cover import (
    common_endpoints,
    common_hosts,
    common_paths,
    common_ports,
    credential_within,
    endpoint_within,
    name_within,
    prefix_within,
)
from wasmrt.capabilities.model._credential import (
    USUAL_PORTS,
    CredentialLocation,
    CredentialMapping,
    LocationType,
    exposed_credential,
    read_secret_name,
)
from wasmrt.capabilities.model._endpoint import (
    ANY_HOST,
    MAX_PREFIX_LENGTH,
    METHODS,
    EndpointPattern,
    host_matches,
    read_host_pattern,
    read_path_prefix,
)
from wasmrt.capabilities.model._host_headers import folded_header, is_host_header
from wasmrt.capabilities.model._limits import MAX_CALL_TIMEOUT_SECONDS, ToolLimits
from wasmrt.capabilities.model._login import LoginCapability, OAuthConfig, common_login, login_within
from wasmrt.capabilities.model._protected import protected_problem
from wasmrt.capabilities.model._workspace_path import is_under_prefixes, path_problem, plain_path, read_prefix

__all__ = [
    "ANY_HOST",
    "MAX_CALL_TIMEOUT_SECONDS",
    "MAX_HTTP_TIMEOUT_SECONDS",
    "MAX_PREFIX_LENGTH",
    "MAX_REQUESTS",
    "METHODS",
    "USUAL_PORTS",
    "CredentialLocation",
    "CredentialMapping",
    "EndpointPattern",
    "HttpCapability",
    "LocationType",
    "LoginCapability",
    "OAuthConfig",
    "RateLimitConfig",
    "SecretsCapability",
    "ToolInvokeCapability",
    "ToolLimits",
    "WorkspaceCapability",
    "WorkspaceWriteCapability",
    "common_endpoints",
    "common_hosts",
    "common_login",
    "common_paths",
    "common_ports",
    "credential_within",
    "endpoint_within",
    "exposed_credential",
    "folded_header",
    "glob_covers",
    "host_matches",
    "is_host_header",
    "is_under_prefixes",
    "login_within",
    "name_within",
    "path_problem",
    "plain_path",
    "prefix_within",
    "protected_problem",
    "read_alias",
    "read_host_pattern",
    "read_path_prefix",
    "read_prefix",
    "read_secret_glob",
    "read_secret_name",
    "read_tool_name",
    "usual_ports",
    "with_ports",
]
