"""Versions, lines of the list and findings of the catalog, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A version before it is stored: everything but its number and its grant."""

    name: str
    digest: str
    """BLAKE3 of the component, 64 hexadecimal digits."""
    size_bytes: int
    world: str
    origin: str = ""
    """Where it came from, in words fit to show."""
    description: str = ""
    imports: tuple[str, ...] = ()
    """`interface#function`, or the interface alone where its functions are not known."""
    exports: tuple[str, ...] = ()
    schema_digest: str | None = None
    """BLAKE3 of the tools' names and schemas; None where none could be read."""
    sidecar: str | None = None
    """The capability file as it came: what the tool asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolVersion(Draft):
    """One version of an installed tool."""

    number: int
    installed_at: str
    """UTC, ISO 8601, to the second."""
    grant: str | None
    """A capability file: what the operator gave. None: this version waits for a decision and never runs."""
    active: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The version as JSON-ready data; sidecar and grant stay text."""
        names = [*Draft.__slots__, *ToolVersion.__slots__]
        return {n: list(v) if isinstance(v := getattr(self, n), tuple) else v for n in names}


class Listed(NamedTuple):
    """One line of the catalog's list. A plain tuple, since there may be ten thousand."""

    name: str
    number: int
    digest: str
    size_bytes: int
    world: str
    description: str
    waiting: int | None
    """The number of an update that waits for a grant."""


class Finding(NamedTuple):
    """What verification says of one version; `problem` is None where the bytes are what was installed."""

    name: str
    number: int
    digest: str
    problem: str | None = None
