"""The capabilities that a stored version asks for, and those that it has."""

from __future__ import annotations

from wasmrt.capabilities import Capabilities, merge
from wasmrt.install._model import ToolVersion

_NOTHING = "{}"


def request_of(version: ToolVersion) -> Capabilities:
    """Return what a stored version asks for."""
    return _read(version.sidecar)


def granted_to(version: ToolVersion) -> Capabilities:
    """Return the capabilities of a stored version: what its request and its grant both allow."""
    request, grant = request_of(version), _read(version.grant)
    if request == grant or version.grant is None:
        return grant
    return merge(request, grant)


def _read(text: str | None) -> Capabilities:
    """Most tools ask for nothing: only the others need the reader of capability files, a twentieth of a start."""
    if text is None or text.strip() == _NOTHING:
        return Capabilities.none()
    from wasmrt.capabilities.file import parse

    return parse(text).capabilities
