"""Packages as a source of components."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wasmrt.capabilities.file import format_file
from wasmrt.catalog._stored import dump_tools
from wasmrt.catalog.package._files import open_files
from wasmrt.catalog.package._read import read_package
from wasmrt.catalog.sources import Fetched


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A package: a folder, the manifest in it, or an archive."""

    path: Path

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Read the package, its component and what its tools ask for.

        Raises:
            SourceError: it cannot be read, or is none.
            ManifestError, PackageError, CapabilityFileError: it is refused.
        """
        files = open_files(self.path)
        package = read_package(files, max_bytes=max_bytes)
        return Fetched(
            data=package.component,
            name=package.id,
            origin=files.origin,
            sidecar=format_file(package.request).encode(),
            warnings=package.left,
            package=None if package.tools is None else dump_tools(package.tools),
        )
