"""What a tool may do: the capability file, its merge with a grant, and every decision made from them.

Pure: nothing here reads a file, a clock or the network. Acting on a decision is for the rooms above.
Each name loads its own part when it is first used: a run without a sidecar never loads the file format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt._lazy import lazy

if TYPE_CHECKING:
    from wasmrt.capabilities._allowlist import (
        AllowlistValidator,
        describe_request,
        describe_unread,
        entry_for,
        judge_addresses,
        judge_host,
    )
    from wasmrt.capabilities._auth import (
        AuthSection,
        OAuthConfig,
        SetupSecret,
        ValidationEndpoint,
    )
    from wasmrt.capabilities._credential import (
        CredentialLocation,
        CredentialMapping,
        LocationType,
        read_secret_name,
    )
    from wasmrt.capabilities._diff import (
        CapabilityDiff,
        Change,
        diff,
    )
    from wasmrt.capabilities._endpoint import (
        METHODS,
        EndpointPattern,
    )
    from wasmrt.capabilities._host_headers import (
        folded_header,
        is_host_header,
    )
    from wasmrt.capabilities._imports import (
        powers_of,
    )
    from wasmrt.capabilities._merge import (
        merge,
    )
    from wasmrt.capabilities._model import (
        Capabilities,
        ToolLimits,
    )
    from wasmrt.capabilities._powers import (
        HttpCapability,
        RateLimitConfig,
        SecretsCapability,
        ToolInvokeCapability,
        WorkspaceCapability,
    )
    from wasmrt.capabilities._propose import (
        propose,
    )
    from wasmrt.capabilities._review import (
        Remark,
        review,
    )
    from wasmrt.capabilities._words import (
        explain,
    )
    from wasmrt.capabilities._workspace_path import (
        path_problem,
    )

_LATER = {
    "_allowlist": (
        "AllowlistValidator",
        "describe_request",
        "describe_unread",
        "entry_for",
        "judge_addresses",
        "judge_host",
    ),
    "_auth": (
        "AuthSection",
        "OAuthConfig",
        "SetupSecret",
        "ValidationEndpoint",
    ),
    "_credential": (
        "CredentialLocation",
        "CredentialMapping",
        "LocationType",
        "read_secret_name",
    ),
    "_diff": (
        "CapabilityDiff",
        "Change",
        "diff",
    ),
    "_endpoint": (
        "EndpointPattern",
        "METHODS",
    ),
    "_host_headers": (
        "folded_header",
        "is_host_header",
    ),
    "_imports": ("powers_of",),
    "_merge": ("merge",),
    "_model": (
        "Capabilities",
        "ToolLimits",
    ),
    "_powers": (
        "HttpCapability",
        "RateLimitConfig",
        "SecretsCapability",
        "ToolInvokeCapability",
        "WorkspaceCapability",
    ),
    "_propose": ("propose",),
    "_review": (
        "Remark",
        "review",
    ),
    "_words": ("explain",),
    "_workspace_path": ("path_problem",),
}

__all__ = [
    "METHODS",
    "AllowlistValidator",
    "AuthSection",
    "Capabilities",
    "CapabilityDiff",
    "Change",
    "CredentialLocation",
    "CredentialMapping",
    "EndpointPattern",
    "HttpCapability",
    "LocationType",
    "OAuthConfig",
    "RateLimitConfig",
    "Remark",
    "SecretsCapability",
    "SetupSecret",
    "ToolInvokeCapability",
    "ToolLimits",
    "ValidationEndpoint",
    "WorkspaceCapability",
    "describe_request",
    "describe_unread",
    "diff",
    "entry_for",
    "explain",
    "folded_header",
    "is_host_header",
    "judge_addresses",
    "judge_host",
    "merge",
    "path_problem",
    "powers_of",
    "propose",
    "read_secret_name",
    "review",
]

__getattr__ = lazy(__name__, _LATER, globals())
