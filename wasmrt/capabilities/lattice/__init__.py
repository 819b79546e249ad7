"""The order of capabilities: what lies within what, what two have in common, and the merge that is built on both."""

from __future__ import annotations

from wasmrt.capabilities.lattice._cover import (
    common_hosts,
    common_paths,
    credential_within,
    endpoint_within,
    name_within,
    prefix_within,
)
from wasmrt.capabilities.lattice._merge import merge, widest

__all__ = [
    "common_hosts",
    "common_paths",
    "credential_within",
    "endpoint_within",
    "merge",
    "name_within",
    "prefix_within",
    "widest",
]
