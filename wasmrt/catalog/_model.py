"""Values of the catalog: facts about a component, its versions, lines of the list, findings. Plain named tuples."""

from __future__ import annotations

from typing import Any, NamedTuple

from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.model import Addition


class ComponentInfo(NamedTuple):
    """Facts about a component: from the engine, and from what it says of itself in a sandbox without any capability."""

    world: str
    description: str = ""
    imports: tuple[str, ...] = ()
    """`interface#function`, or the interface alone where its functions are not known."""
    exports: tuple[str, ...] = ()
    schema_digest: str | None = None
    """BLAKE3 of the tools' names and schemas; None where none could be read."""
    tools: int = 1
    """The number of its tools."""
    problems: tuple[str, ...] = ()
    """Problems of its descriptions, in sentences; it can run all the same."""
    schema_problems: tuple[str, ...] = ()
    """Those of its schemas that could not be taken: a model would not be told the params."""


class NewVersion(NamedTuple):
    """A version before it is stored: everything but its number and its grant."""

    name: str
    component: ComponentBytes
    info: ComponentInfo
    origin: str = ""
    """The place it came from, in words fit to show."""
    sidecar: str | None = None
    """The capability file as it came: what the tool asks for."""
    package: str | None = None
    """The tools of its package, as `dump_tools` writes them; None where it came without one."""
    tools: int = 1
    """The number of its tools."""


class Kept(NamedTuple):
    """An entry that a person added to a version's grant for good, when a call of it was refused."""

    addition: Addition
    tool: str | None
    """Of a component whose grant tells its tools apart, the one that has it; None for the component."""
    by: str
    """The person."""
    at: str
    """UTC, ISO 8601, to the second."""

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as JSON data."""
        return self.addition.as_dict() | {"tool": self.tool, "by": self.by, "at": self.at}


class ToolVersion(NamedTuple):
    """One version of an installed tool."""

    name: str
    number: int
    digest: str
    """BLAKE3 of the component, 64 hexadecimal digits."""
    size_bytes: int
    world: str
    description: str
    origin: str
    installed_at: str
    """UTC, ISO 8601, to the second."""
    schema_digest: str | None
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    sidecar: str | None
    """The capability file as it came: what the tool asks for."""
    grant: str | None
    """A capability file: what the operator gave. None: this version is pending a decision and never runs."""
    active: bool
    package: str | None = None
    """The tools of its package, as text; None where it came without one."""
    tools: int = 1
    """The number of its tools."""
    kept: tuple[Kept, ...] = ()
    """Entries that it may have beyond what its file asks for; each is in the grant, too, until it is revoked there."""

    @property
    def pending(self) -> bool:
        """True while it waits for somebody to grant what it asks for."""
        return self.grant is None

    def as_dict(self) -> dict[str, Any]:
        """Return the version as JSON-ready data; sidecar and grant stay text, its package's tools are left out."""
        values = {name: value for name, value in self._asdict().items() if name != "package"}
        data = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return data | {"kept": [each.as_dict() for each in self.kept]}


class Listed(NamedTuple):
    """One line of the catalog's list. A plain tuple, since there may be ten thousand."""

    name: str
    number: int
    digest: str
    size_bytes: int
    world: str
    description: str
    pending: int | None
    """The number of an update that waits for a grant."""
    tools: int = 1
    """The number of its tools."""


class Finding(NamedTuple):
    """The result of verifying one version; `problem` is None where the bytes are what was installed."""

    name: str
    number: int
    digest: str
    problem: str | None = None
