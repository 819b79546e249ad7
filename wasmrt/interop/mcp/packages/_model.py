"""A package of a registry: as requested by a command, and as installed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Registry(StrEnum):
    """The registries of packages with MCP servers."""

    NPM = "npm"
    PYPI = "pypi"

    @property
    def label(self) -> str:
        """The name of the registry, as the registry itself spells the name."""
        return "npm" if self is Registry.NPM else "PyPI"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRequest:
    """The package that a command such as `npx -y PACKAGE` would fetch and run."""

    registry: Registry
    name: str
    requirement: str
    """The package with its version, in the registry's syntax: `name@1.2.3`, `name==1.2.3`."""
    extra: tuple[str, ...] = ()
    """Requirements of additional packages."""
    program: str = ""
    """The program of the package; empty for the package's own choice."""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The installed package of a server."""

    registry: Registry
    name: str
    version: str
    digest: str
    """BLAKE3, in hex, of the names, versions and digests of all installed packages, including dependencies."""
    runner: tuple[str, ...]
    """The command from which it was installed; `wasmrt mcp update` reads it again."""

    def as_json(self) -> dict[str, Any]:
        """Return the package's entry in the servers file."""
        return {
            "registry": str(self.registry), "name": self.name, "version": self.version, "digest": self.digest,
            "runner": list(self.runner),
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{self.name} {self.version} of {self.registry.label}, digest {self.digest[:16]}"
