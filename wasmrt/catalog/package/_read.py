"""Read a package with a manifest of either kind."""

from __future__ import annotations

from wasmrt.catalog.package._files import PackageFiles
from wasmrt.catalog.package._own import read_own_package
from wasmrt.catalog.package._package import Package, read_ironclaw_package
from wasmrt.catalog.sources import MANIFESTS
from wasmrt.core.errors import SourceError
from wasmrt.core.limits import COMPONENT_MAX_BYTES


def read_package(files: PackageFiles, *, max_bytes: int = COMPONENT_MAX_BYTES) -> Package:
    """Read a package with a manifest of either kind. `max_bytes` is the maximum size of the component.

    Raises:
        SourceError: the package has no manifest.
        ManifestError, PackageError, CapabilityFileError: the package is invalid.
    """
    ironclaw, own = MANIFESTS
    if files.has(ironclaw):
        return read_ironclaw_package(files, max_bytes=max_bytes)
    if files.has(own):
        return read_own_package(files, max_bytes=max_bytes)
    raise SourceError(f"{files.origin} has no {ironclaw} and no {own}", hint="pass the folder or archive of a package")
