"""The capabilities that a stored version asks for, and those that it has."""

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
    """Return what a stored version asks for: in its file, and what a person was asked for when it ran and kept."""
    asked = _read(version.sidecar)
    for kept in version.kept:
        asked = grown(asked, (kept.addition,), kept.tool)
    return asked


def granted_to(version: ToolVersion) -> Capabilities:
    """Return the capabilities of a stored version: what its request and its grant both allow."""
    request, grant = request_of(version), _read(version.grant)
    if request == grant or version.grant is None:
        return grant
    return merge(request, grant)


def parameters_of(sidecar: str | None) -> dict[str, Any] | None:
    """Return the schema of params that a capability file has; None where it has none."""
    if sidecar is None or '"parameters"' not in sidecar:
        return None
    from wasmrt.capabilities.file import parse  # as in `_read`

    found: dict[str, Any] | None = parse(sidecar).sections.get("parameters")
    return found


def only_tools(capabilities: Capabilities, patterns: Sequence[str]) -> Capabilities:
    """Return the capabilities with nothing left to tools whose name none of the patterns fits (`get_*`).

    Raises:
        ConfigurationError: the capabilities have no sections of tools, or a pattern fits none.
    """
    if capabilities.tools is None:
        raise ConfigurationError(
            "what it asks for is not told apart by tools", hint="narrow it with --grant FILE, in a section tools"
        )
    names = [tool.name for tool in capabilities.tools]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = did_you_mean(pattern, names)
            hint = f"did you mean {near}?" if near else f"its tools are: {', '.join(names)}"
            raise ConfigurationError(f"no tool fits {pattern!r}", hint=hint)
    kept = [tool for tool in capabilities.tools if any(fnmatchcase(tool.name, pattern) for pattern in patterns)]
    return capabilities.with_tools(kept)


def _read(text: str | None) -> Capabilities:
    """Most tools ask for nothing: only the others need the reader of capability files, a twentieth of a start."""
    if text is None or text.strip() == _NOTHING:
        return Capabilities.none()
    from wasmrt.capabilities.file import parse

    return parse(text).capabilities
