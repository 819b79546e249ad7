"""Sources of components. A source provides the bytes, a suggested name and the sidecar file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from wasmrt.core.errors import ComponentTooLargeError, SourceError
from wasmrt.core.files import Unfit, UnfitFileError, read_file
from wasmrt.core.limits import ARCHIVE_SUFFIXES, MAX_CAPABILITY_FILE_BYTES

SIDECAR_SUFFIX = ".capabilities.json"
_PROJECT_FILE = "wasmrt.toml"
"""The project file in the folder of a tool's source code."""
MANIFESTS = ("manifest.toml", _PROJECT_FILE)
"""Files that describe a package, in order of precedence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The unchecked bytes that a source provided."""

    data: bytes = field(repr=False)
    name: str
    """The suggested name, which may be invalid."""
    origin: str
    """The source, as displayable text."""
    sidecar: bytes | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()
    """Warnings about the source, as sentences."""
    package: str | None = None
    """The tools that its package lists, as text; None if the component describes them itself."""


class Source(Protocol):
    """A place to install from. Only files are supported now; the interface also fits URLs and OCI registries."""

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Return the component.

        Raises:
            SourceError: the component does not exist or cannot be read.
            ComponentTooLargeError: it has more than `max_bytes`; no further bytes are read.
        """


@dataclass(frozen=True, slots=True)
class FileSource:
    """A component file, with `NAME.capabilities.json` next to it unless a different sidecar is given."""

    path: Path
    sidecar: Path | None = None

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Read the component and its capability file.

        Raises:
            SourceError: a file is not a regular file, cannot be read, or is too large.
        """
        data = read_source(self.path, "component", max_bytes=max_bytes)
        beside = self.path.with_name(self.path.name.removesuffix(".wasm") + SIDECAR_SUFFIX)
        # `isfile` raises no error for names that are too long.
        path = self.sidecar or (beside if os.path.isfile(beside) else None)  # noqa: PTH113
        sidecar = None if path is None else read_capability_file(path)
        return Fetched(
            data=data,
            name=self.path.name.removesuffix(".wasm").removesuffix(".component"),
            origin=f"file {self.path.name}",
            sidecar=sidecar,
            warnings=() if self.sidecar is not None else tuple(_stale(beside, sidecar)),
        )


def is_package(path: Path) -> bool:
    """Return whether a path is a package: a folder, a manifest or an archive."""
    return path.is_dir() or path.name in MANIFESTS or path.name.endswith(ARCHIVE_SUFFIXES)


def _stale(beside: Path, used: bytes | None) -> Iterator[str]:
    """Warn if the capability file next to the component, a copy made by the build, differs from the project's file."""
    project = beside.absolute().parent.parent
    original = project / beside.name
    if not (project / _PROJECT_FILE).is_file() or not os.path.isfile(original):  # noqa: PTH113 - as above
        return
    try:
        is_same = read_capability_file(original) == used
    except SourceError:  # the copy is installed
        is_same = False
    if not is_same:
        state = "is missing from the build folder" if used is None else "in the build folder differs from the project's"
        yield f"{beside.name} {state}; wasmrt build updates it"


def read_capability_file(path: Path) -> bytes:
    """Read a capability file within its size bound.

    Raises:
        SourceError: the file cannot be read or is too large.
    """
    try:
        return read_source(path, "capability file", max_bytes=MAX_CAPABILITY_FILE_BYTES)
    except ComponentTooLargeError as error:
        raise SourceError(
            f"{path.name!r} has more than {MAX_CAPABILITY_FILE_BYTES} bytes, the limit of capability files",
            hint="write fewer, wider entries",
        ) from error


def read_source(path: Path, what: str, *, max_bytes: int) -> bytes:
    """Read a regular file of at most `max_bytes`.

    Raises:
        SourceError: the file does not exist, is not a regular file, or cannot be read.
        ComponentTooLargeError: the file is larger.
    """
    shown = repr(path.name or str(path))
    try:
        return read_file(path, max_bytes=max_bytes, follow_link=True)
    except UnfitFileError as error:
        if error.reason is not Unfit.TOO_LARGE:
            raise SourceError(f"{shown} {error.reason}", hint=f"give the path of a readable {what}") from None
        raise ComponentTooLargeError(
            f"{shown} has more than {max_bytes} bytes, the limit for a {what}",
            hint="remove debug information and names from it, or raise the limit with wasmrt install --max-bytes",
        ) from None
    except FileNotFoundError:
        longer = path.with_name(f"{path.name}.wasm")
        found = os.path.isfile(longer)  # noqa: PTH113 - no error where the longer name is too long
        hint = f"did you mean {longer.name}?" if found else "check the path"
        raise SourceError(f"there is no {what} {shown}", hint=hint) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or "not a path"
        raise SourceError(
            f"the {what} {shown} cannot be read ({reason})", hint=f"give the path of a readable {what}"
        ) from error
