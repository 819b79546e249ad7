"""The places that a model may have a tool installed from: folders and hosts that the operator named, and no path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wasmrt.catalog.sources import MANIFESTS, FileSource, Source, is_package
from wasmrt.core.errors import NotInstalledError, SourceError
from wasmrt.core.limits import ARCHIVE_SUFFIXES
from wasmrt.core.names import check_installed_name, did_you_mean

_MAX_LISTED = 1024
SUFFIXES = (*ARCHIVE_SUFFIXES, ".wasm")
"""Ends of the names of what can be one, besides folders."""


class ToolSources(NamedTuple):
    """Folders of packages and components, and hosts that packages may be fetched from."""

    folders: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """Return the names that something in a folder goes by, sorted."""
        return tuple(sorted(set(self._listed())))

    def path(self, name: str) -> Path:
        """Return the package or component of a name.

        Raises:
            InvalidNameError: no tool can have the name; a path is none.
            NotInstalledError: no folder has it, or what has it leads out of the folder.
        """
        check_installed_name(name)
        for folder in self.folders:
            root = os.path.realpath(folder)
            for path in (folder / name, *(folder / f"{name}{suffix}" for suffix in SUFFIXES)):
                # SECURITY: a link in the folder does not lend its name to what lies elsewhere.
                real = os.path.realpath(path)
                if real.startswith(f"{root}{os.sep}") and _is_source(Path(real)):
                    return Path(real)
        near = did_you_mean(name, self.names())
        hint = f"did you mean {near}?" if near else "tool_search shows what there is"
        raise NotInstalledError(f"no source of the operator's has a tool {name!r:.80}", hint=hint)

    def source(self, name: str) -> Source:
        """Return the source of a name, for the installer.

        Raises:
            InvalidNameError, NotInstalledError: as `path`.
        """
        return source_at(self.path(name))

    def _listed(self) -> Iterator[str]:
        for folder in self.folders:
            try:
                entries = sorted(path.name for path in folder.iterdir())[:_MAX_LISTED]
            except OSError:
                continue
            for entry in entries:
                suffix = next((suffix for suffix in SUFFIXES if entry.endswith(suffix)), "")
                if _is_source(folder / entry):
                    yield entry.removesuffix(suffix)


def source_at(path: Path) -> Source:
    """Return what lies at a path as a source.

    Raises:
        SourceError: its name ends like nothing that can be one.
    """
    if is_package(path):
        from wasmrt.catalog.package import PackageSource  # archives are opened where one is installed

        return PackageSource(path)
    if path.suffix != ".wasm":
        hint = f"it ends in one of {', '.join(SUFFIXES)}"
        raise SourceError("this is neither a package nor a component", hint=hint)
    return FileSource(path)


def _is_source(path: Path) -> bool:
    if path.is_dir():
        return any((path / manifest).is_file() for manifest in MANIFESTS)
    return path.name.endswith(SUFFIXES) and path.is_file()
