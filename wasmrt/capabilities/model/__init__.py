"""The values that capabilities consist of: entries, credentials, paths and names. Each is validated on creation."""

from __future__ import annotations

from wasmrt.capabilities.model._checks import check_numbers, set_tuple, unique, widest
from wasmrt.capabilities.model._cover import (
    common_credentials,
    common_endpoints,
    common_hosts,
    common_paths,
    credential_within,
    endpoint_within,
    host_within,
    hosts_meet,
    origins_of,
    with_origins,
)
from wasmrt.capabilities.model._credential import (
    USUAL_PORTS,
    CredentialLocation,
    CredentialMapping,
    LocationType,
    exposed_credential,
    matching_credentials,
    read_secret_name,
    usual_ports,
    with_ports,
)
from wasmrt.capabilities.model._endpoint import (
    ANY_HOST,
    METHODS,
    READ_METHODS,
    EndpointPattern,
    folded_header,
    host_matches,
    is_host_header,
    read_host_pattern,
)
from wasmrt.capabilities.model._names import glob_covers, read_alias, read_secret_glob, read_tool_name
from wasmrt.capabilities.model._path import ANY_SEGMENT, MAX_PATH_LENGTH, PathPattern, path_pattern, read_path_pattern
from wasmrt.capabilities.model._protected import is_invisible, is_prompt_file, protected_problem
from wasmrt.capabilities.model._workspace_path import is_under_prefixes, path_problem, plain_path, read_prefix

__all__ = [
    "ANY_HOST",
    "ANY_SEGMENT",
    "MAX_PATH_LENGTH",
    "METHODS",
    "READ_METHODS",
    "USUAL_PORTS",
    "CredentialLocation",
    "CredentialMapping",
    "EndpointPattern",
    "LocationType",
    "PathPattern",
    "check_numbers",
    "common_credentials",
    "common_endpoints",
    "common_hosts",
    "common_paths",
    "credential_within",
    "endpoint_within",
    "exposed_credential",
    "folded_header",
    "glob_covers",
    "host_matches",
    "host_within",
    "hosts_meet",
    "is_host_header",
    "is_invisible",
    "is_prompt_file",
    "is_under_prefixes",
    "matching_credentials",
    "origins_of",
    "path_pattern",
    "path_problem",
    "plain_path",
    "protected_problem",
    "read_alias",
    "read_host_pattern",
    "read_path_pattern",
    "read_prefix",
    "read_secret_glob",
    "read_secret_name",
    "read_tool_name",
    "set_tuple",
    "unique",
    "usual_ports",
    "widest",
    "with_origins",
    "with_ports",
]
