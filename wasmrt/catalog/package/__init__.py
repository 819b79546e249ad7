"""Read packages: a component with descriptions of its tools, their requests and documents. No code of a package is run.

A package is a folder or an archive with a manifest: IronClaw's `manifest.toml`, or wasmrt's `wasmrt.toml`.
"""

from __future__ import annotations

from wasmrt.catalog.package._files import (
    ArchiveFiles,
    FolderFiles,
    PackageFiles,
    open_files,
    read_archive,
    read_archive_file,
)
from wasmrt.catalog.package._own import (
    DIGESTS,
    PACKAGE_FILE,
    check_digests,
    pack,
    read_own_package,
    read_package_file,
    write_archive,
)
from wasmrt.catalog.package._package import Package, read_ironclaw_package
from wasmrt.catalog.package._read import read_package
from wasmrt.catalog.package._source import PackageSource, fetch_archive
from wasmrt.catalog.package._standard import standard_operations

__all__ = [
    "DIGESTS",
    "PACKAGE_FILE",
    "ArchiveFiles",
    "FolderFiles",
    "Package",
    "PackageFiles",
    "PackageSource",
    "check_digests",
    "fetch_archive",
    "open_files",
    "pack",
    "read_archive",
    "read_archive_file",
    "read_ironclaw_package",
    "read_own_package",
    "read_package",
    "read_package_file",
    "standard_operations",
    "write_archive",
]
