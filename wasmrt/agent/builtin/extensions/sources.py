"""Sources from which a model can request tools: only folders and hosts that the operator allowed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.sources import MANIFESTS, FileSource, Source, is_package
from wasmrt.core.errors import NotInstalledError, SourceError
from wasmrt.core.limits import ARCHIVE_SUFFIXES
from wasmrt.core.names import check_installed_name, did_you_mean

if TYPE_CHECKING:
    from wasmrt.catalog.registry import Send

_MAX_LISTED = 1024
SUFFIXES = (*ARCHIVE_SUFFIXES, ".wasm")
"""File name suffixes of packages and components. A package can also be a folder."""


class ToolSources(NamedTuple):
    """Folders of packages and components, and hosts from which packages may be downloaded."""

    folders: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    policy: InstallPolicy = InstallPolicy()

    def names(self) -> tuple[str, ...]:
        """Return the names of all packages and components in the folders, sorted."""
        return tuple(sorted(set(self._scan())))

    def path(self, name: str) -> Path:
        """Return the path of a package or component.

        Raises:
            InvalidNameError: the name is not a valid name of a tool; for example, it is a path.
            NotInstalledError: no folder contains the file, or the file is a link that leads out of the folder.
        """
        check_installed_name(name)
        for folder in self.folders:
            root = os.path.realpath(folder)
            for path in (folder / name, *(folder / f"{name}{suffix}" for suffix in SUFFIXES)):
                # SECURITY: a link in the folder must not make files elsewhere installable.
                real = os.path.realpath(path)
                if real.startswith(f"{root}{os.sep}") and _is_source(Path(real)):
                    return Path(real)
        near = did_you_mean(name, self.names())
        hint = f"did you mean {near}?" if near else "list the tools: tool_search"
        raise NotInstalledError(f"none of the operator's sources has a tool {name!r:.80}", hint=hint)

    def source(self, name: str) -> Source:
        """Open a tool in the folders as a source for the installer.

        Raises:
            InvalidNameError, NotInstalledError: see `path`.
        """
        return open_source_at(self.path(name))

    def _scan(self) -> Iterator[str]:
        for folder in self.folders:
            try:
                entries = sorted(path.name for path in folder.iterdir())[:_MAX_LISTED]
            except OSError:
                continue
            for entry in entries:
                suffix = next((suffix for suffix in SUFFIXES if entry.endswith(suffix)), "")
                if _is_source(folder / entry):
                    yield entry.removesuffix(suffix)


def open_source_at(path: Path) -> Source:
    """Open the package or component at a path as a source.

    Raises:
        SourceError: the file name has an unknown suffix.
    """
    if is_package(path):
        from wasmrt.catalog.package import PackageSource  # importing archive formats takes memory

        return PackageSource(path)
    if path.suffix != ".wasm":
        hint = f"use a file with one of these suffixes: {', '.join(SUFFIXES)}"
        raise SourceError(f"{path.name} is neither a package nor a component", hint=hint)
    return FileSource(path)


def open_source(url: str, download: Callable[[str, int], bytes], send: Send) -> Source:
    """Open the package or component at a URL or in a registry as a source. A component at a URL requests nothing.

    Raises:
        SourceError: the URL is neither a registry's reference nor an https URL of a package or component.
    """
    from wasmrt.catalog.registry import SCHEME, Access, OciSource, UrlSource, parse_reference  # as in `open_source_at`

    if not url.startswith(SCHEME):
        return UrlSource(url, download)
    parse_reference(url)
    # SECURITY: a model chose the registry, so the user's login is not sent to the registry.
    return OciSource(url, Access(lambda _: nullcontext(send), lambda _host: None))


def first_address(url: str) -> str:
    """Return the https address to which the first request for a source is sent.

    Raises:
        SourceError: the URL begins with `oci://` and is not a registry's reference.
    """
    from wasmrt.catalog.registry import SCHEME, parse_reference  # as in `open_source_at`

    if not url.startswith(SCHEME):
        return url
    reference = parse_reference(url)
    return f"{reference.origin}/v2/{reference.name}/"


def _is_source(path: Path) -> bool:
    if path.is_dir():
        return any((path / manifest).is_file() for manifest in MANIFESTS)
    return path.name.endswith(SUFFIXES) and path.is_file()
