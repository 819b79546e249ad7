"""The capabilities that a stored version requests, and those that it has."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from wasmrt.capabilities import Capabilities, grown, merge
from wasmrt.catalog._model import ToolVersion
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean

_NOTHING = "{}"


def request_of(version: ToolVersion) -> Capabilities:
    """Return a stored version's request: its capability file, with the entries that a user permanently added."""
    asked = _read(version.sidecar)
    for kept in version.kept:
        asked = grown(asked, (kept.addition,), kept.tool)
    return asked


def granted_to(version: ToolVersion) -> Capabilities:
    """Return the capabilities of a stored version: the intersection of its request and its grant."""
    request, grant = request_of(version), _read(version.grant)
    if request == grant or version.grant is None:
        return grant
    return merge(request, grant)


def parameters_of(sidecar: str | None) -> dict[str, Any] | None:
    """Return the parameter schema of a capability file, or None."""
    if sidecar is None or '"parameters"' not in sidecar:
        return None
    from wasmrt.capabilities.file import parse  # as in `_read`

    found: dict[str, Any] | None = parse(sidecar).sections.get("parameters")
    return found


def only_tools(capabilities: Capabilities, patterns: Sequence[str]) -> Capabilities:
    """Return the capabilities without those of tools that match no pattern (`get_*`).

    Raises:
        ConfigurationError: the capabilities have no sections for tools, or a pattern matches no tool.
    """
    if capabilities.tools is None:
        raise ConfigurationError(
            "its request has no sections for single tools", hint="narrow it with --grant FILE, in a section tools"
        )
    names = [tool.name for tool in capabilities.tools]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = did_you_mean(pattern, names)
            hint = f"did you mean {near}?" if near else f"its tools are: {', '.join(names)}"
            raise ConfigurationError(f"no tool matches {pattern!r}", hint=hint)
    kept = [tool for tool in capabilities.tools if any(fnmatchcase(tool.name, pattern) for pattern in patterns)]
    return capabilities.with_tools(kept)


def _read(text: str | None) -> Capabilities:
    """Most tools request nothing; importing the capability file reader for the others takes 5 % of the start time."""
    if text is None or text.strip() == _NOTHING:
        return Capabilities.none()
    from wasmrt.capabilities.file import parse

    return parse(text).capabilities
