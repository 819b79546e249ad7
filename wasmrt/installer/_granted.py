"""What a stored version asks for and has. Apart from the rest, because running a tool needs no more of this room."""

from __future__ import annotations

from wasmrt.capabilities import Capabilities, merge, parse
from wasmrt.catalog import ToolVersion


def request_of(version: ToolVersion) -> Capabilities:
    """Return what a stored version asks for."""
    return Capabilities.none() if version.sidecar is None else parse(version.sidecar).capabilities


def granted_to(version: ToolVersion) -> Capabilities:
    """Return the power a stored version has: its request and its grant together."""
    if version.grant is None:
        return Capabilities.none()
    return merge(request_of(version), parse(version.grant).capabilities)
