"""Packages as sources from which components are installed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from wasmrt.capabilities.file import format_file
from wasmrt.catalog._stored import dump_tools
from wasmrt.catalog.package._files import ArchiveFiles, FolderFiles, open_files, read_archive, read_archive_file
from wasmrt.catalog.package._read import read_package
from wasmrt.catalog.sources import MANIFESTS, Fetched, digests_to_sign, read_bundles


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A package as a source. `path` is the package's folder, its manifest, or an archive."""

    path: Path

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Read the component of the package, the request of its tools, and the list of tools.

        Raises:
            SourceError: the package cannot be read or has no manifest.
            ManifestError, PackageError, CapabilityFileError: the package is invalid.
        """
        path = self.path
        if path.is_dir() or path.name in MANIFESTS:
            fetched = _fetch(open_files(path), max_bytes)
        else:
            fetched = fetch_archive(read_archive_file(path), f"package {path.name}", max_bytes=max_bytes)
            fetched = replace(fetched, bundles=read_bundles(path))
        return replace(fetched, resolved=str(path.absolute()))


def fetch_archive(data: bytes, origin: str, *, max_bytes: int) -> Fetched:
    """Read a package from the bytes of an archive. `origin` names the source in messages.

    Raises:
        SourceError, ManifestError, PackageError, CapabilityFileError: see `PackageSource.fetch`.
    """
    signed = digests_to_sign(data)
    fetched = _fetch(ArchiveFiles(read_archive(data), origin), max_bytes)
    return replace(fetched, digest=f"sha256:{signed[0]}", signed=signed)


def _fetch(files: FolderFiles | ArchiveFiles, max_bytes: int) -> Fetched:
    package = read_package(files, max_bytes=max_bytes)
    return Fetched(
        data=package.component,
        name=package.id,
        origin=files.origin,
        sidecar=format_file(package.request).encode(),
        warnings=package.left,
        package=None if package.tools is None else dump_tools(package.tools),
    )
