"""Read the requested and the granted capabilities of a stored version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from wasmrt.capabilities import Capabilities, merge, with_added_entries
from wasmrt.catalog._model import Kept, ToolVersion
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean

_NOTHING = "{}"


def request_of(version: ToolVersion) -> Capabilities:
    """Return the request of a stored version: its capability file, with the entries that users permanently added."""
    return with_kept(_read(version.sidecar), version.kept)


def with_kept(asked: Capabilities, kept: Iterable[Kept]) -> Capabilities:
    """Add the entries that users permanently added to a request.

    Raises:
        ConfigurationError: see `with_added_entries`.
    """
    for each in kept:
        asked = with_added_entries(asked, (each.addition,), each.tool)
    return asked


def read_granted(version: ToolVersion) -> Capabilities:
    """Return the capabilities of a stored version: the intersection of its request and its grant."""
    request, grant = request_of(version), _read(version.grant)
    if request == grant or version.grant is None:
        return grant
    return merge(request, grant)


def parameters_of(sidecar: str | None) -> dict[str, Any] | None:
    """Return the section `parameters` of a capability file, a JSON Schema, or None."""
    if sidecar is None or '"parameters"' not in sidecar:
        return None
    from wasmrt.capabilities.file import parse  # imported late, as in `_read`

    found: dict[str, Any] | None = parse(sidecar).sections.get("parameters")
    return found


def select_tools(capabilities: Capabilities, patterns: Sequence[str]) -> Capabilities:
    """Remove the sections of all tools whose names match none of the patterns, such as `get_*`.

    Raises:
        ConfigurationError: the capabilities have no sections for tools, or a pattern matches no tool.
    """
    if capabilities.tools is None:
        raise ConfigurationError(
            "the capability file has no sections for single tools",
            hint='select tools with --grant FILE, where FILE is a capability file with a section "tools"',
        )
    names = [tool.name for tool in capabilities.tools]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = did_you_mean(pattern, names)
            hint = f"did you mean {near}?" if near else f"the tools are: {', '.join(names)}"
            raise ConfigurationError(f"no tool matches {pattern!r}", hint=hint)
    kept = [tool for tool in capabilities.tools if any(fnmatchcase(tool.name, pattern) for pattern in patterns)]
    return capabilities.with_tools(kept)


def _read(text: str | None) -> Capabilities:
    """Return the capabilities in a capability file; None as `text` means an empty file."""
    # Importing the reader of capability files takes 5 % of the start time, and most tools have an empty file.
    if text is None or text.strip() == _NOTHING:
        return Capabilities.none()
    from wasmrt.capabilities.file import parse

    return parse(text).capabilities
