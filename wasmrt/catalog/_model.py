"""Values of the catalog as named tuples: component facts, versions, list entries and findings."""

from __future__ import annotations

from typing import Any, NamedTuple

from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.model import Addition


class ComponentInfo(NamedTuple):
    """Facts about a component, from the engine and from its own description, read in a sandbox without capabilities."""

    world: str
    description: str = ""
    imports: tuple[str, ...] = ()
    """`interface#function`, or only the interface if its functions are not known."""
    exports: tuple[str, ...] = ()
    schema_digest: str | None = None
    """The BLAKE3 digest of tool names and schemas, or None if they could not be read."""
    tools: int = 1
    """The number of tools."""
    problems: tuple[str, ...] = ()
    """Problems of its descriptions, as sentences; the component can run nevertheless."""
    schema_problems: tuple[str, ...] = ()
    """Problems of invalid schemas; models would not receive the parameters."""


class NewVersion(NamedTuple):
    """A version before it is stored, without number and grant."""

    name: str
    component: ComponentBytes
    info: ComponentInfo
    origin: str = ""
    """Its source, as displayable text."""
    sidecar: str | None = None
    """The capability file of the source, which contains the request."""
    package: str | None = None
    """The tools of its package, as written by `dump_tools`, or None without a package."""
    tools: int = 1
    """The number of tools."""


class Kept(NamedTuple):
    """An entry that a user added permanently to a version's grant after a call was denied."""

    addition: Addition
    tool: str | None
    """The tool that got the entry, if the grant has sections for tools; None means the component."""
    by: str
    """The name of the user."""
    at: str
    """The time in UTC, ISO 8601, in seconds."""

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as JSON data."""
        return self.addition.as_dict() | {"tool": self.tool, "by": self.by, "at": self.at}


class ToolVersion(NamedTuple):
    """One version of an installed tool."""

    name: str
    number: int
    digest: str
    """The BLAKE3 digest of the component, 64 hexadecimal digits."""
    size_bytes: int
    world: str
    description: str
    origin: str
    installed_at: str
    """The time in UTC, ISO 8601, in seconds."""
    schema_digest: str | None
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    sidecar: str | None
    """The capability file of the source, which contains the request."""
    grant: str | None
    """A capability file with the operator's grant. None: the version waits for a decision and never runs."""
    active: bool
    package: str | None = None
    """The tools of its package as text, or None without a package."""
    tools: int = 1
    """The number of tools."""
    kept: tuple[Kept, ...] = ()
    """Entries that are granted beyond the capability file. Each one is also in the grant, unless it was revoked."""

    @property
    def pending(self) -> bool:
        """True if the version is waiting for a grant."""
        return self.grant is None

    def as_dict(self) -> dict[str, Any]:
        """Return the version as JSON data; sidecar and grant stay text, and the tools of the package are omitted."""
        values = {name: value for name, value in self._asdict().items() if name != "package"}
        data = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return data | {"kept": [each.as_dict() for each in self.kept]}


class Listed(NamedTuple):
    """One entry of the catalog's list. A plain tuple, because there can be ten thousand."""

    name: str
    number: int
    digest: str
    size_bytes: int
    world: str
    description: str
    pending: int | None
    """The number of an update that is waiting for a grant."""
    tools: int = 1
    """The number of tools."""


class Finding(NamedTuple):
    """The result of verifying one version; `problem` is None if its bytes are unchanged."""

    name: str
    number: int
    digest: str
    problem: str | None = None
