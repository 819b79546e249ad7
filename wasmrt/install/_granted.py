"""What a stored version asks for and has. Apart from the rest, because running a tool needs no more of this room."""

from __future__ import annotations

from wasmrt.capabilities import Capabilities
from wasmrt.install._model import ToolVersion

_NOTHING = "{}"


def request_of(version: ToolVersion) -> Capabilities:
    """Return what a stored version asks for."""
    return _read(version.sidecar)


def granted_to(version: ToolVersion) -> Capabilities:
    """Return the power a stored version has: its request and its grant together."""
    request, grant = request_of(version), _read(version.grant)
    if request == grant or version.grant is None:
        return grant
    from wasmrt.capabilities import merge

    return merge(request, grant)


def _read(text: str | None) -> Capabilities:
    """Most tools ask for nothing: what reads and merges powers is loaded for the others."""
    if text is None or text.strip() == _NOTHING:
        return Capabilities.none()
    from wasmrt.capabilities.file import parse

    return parse(text).capabilities
