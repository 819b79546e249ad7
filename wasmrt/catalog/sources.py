"""Sources of components: each hands over bytes, a name to suggest and the sidecar that lies beside them."""

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
"""A file in the folder of a tool's source."""
MANIFESTS = ("manifest.toml", _PROJECT_FILE)
"""Files that describe a package, the first there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The bytes that a source handed over: nothing has looked at them yet."""

    data: bytes = field(repr=False)
    name: str
    """The name it suggests; it may be none that a tool can have."""
    origin: str
    """The place it came from, in words fit to show."""
    sidecar: bytes | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()
    """Oddities of the place it came from, in sentences."""
    package: str | None = None
    """The tools that its package says it has, as text; None where the component says it itself."""


class Source(Protocol):
    """A place to install from: files now, and nothing in the way of an https URL or an OCI registry."""

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Hand the component over.

        Raises:
            SourceError: it is not there or cannot be read.
            ComponentTooLargeError: it is over `max_bytes`; no more than that is ever read.
        """


@dataclass(frozen=True, slots=True)
class FileSource:
    """A component file, with `NAME.capabilities.json` beside it unless another sidecar is named."""

    path: Path
    sidecar: Path | None = None

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Read the component, and the capability file beside it or named.

        Raises:
            SourceError: one of them is no regular file, cannot be read, or is too large.
        """
        data = read_source(self.path, "component", max_bytes=max_bytes)
        beside = self.path.with_name(self.path.name.removesuffix(".wasm") + SIDECAR_SUFFIX)
        # `isfile` has no error for a name that is too long.
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
    """Return whether a path names a package: a folder, a manifest or an archive."""
    return path.is_dir() or path.name in MANIFESTS or path.name.endswith(ARCHIVE_SUFFIXES)


def _stale(beside: Path, used: bytes | None) -> Iterator[str]:
    """A build puts a copy of the project's capability file beside the component; an edit since then is not in it."""
    project = beside.absolute().parent.parent
    original = project / beside.name
    if not (project / _PROJECT_FILE).is_file() or not os.path.isfile(original):  # noqa: PTH113 - as above
        return
    try:
        is_same = read_capability_file(original) == used
    except SourceError:  # what is installed is the copy
        is_same = False
    if not is_same:
        state = (
            "is missing from the build folder" if used is None else "in the build folder is not the project's any more"
        )
        yield f"{beside.name} {state}; wasmrt build brings it up to date"


def read_capability_file(path: Path) -> bytes:
    """Read a capability file, within its cap.

    Raises:
        SourceError: it cannot be read or is too large.
    """
    try:
        return read_source(path, "capability file", max_bytes=MAX_CAPABILITY_FILE_BYTES)
    except ComponentTooLargeError as error:
        raise SourceError(
            f"{path.name!r} is over the {MAX_CAPABILITY_FILE_BYTES} bytes of a capability file",
            hint="write fewer, wider entries",
        ) from error


def read_source(path: Path, what: str, *, max_bytes: int) -> bytes:
    """Read a regular file of at most `max_bytes`.

    Raises:
        SourceError: there is no such file, it is something else than a file, or it cannot be read.
        ComponentTooLargeError: it is larger.
    """
    shown = repr(path.name or str(path))
    try:
        return read_file(path, max_bytes=max_bytes, follow_link=True)
    except UnfitFileError as error:
        if error.reason is not Unfit.TOO_LARGE:
            raise SourceError(f"{shown} {error.reason}", hint=f"give the path of a {what} that you may read") from None
        raise ComponentTooLargeError(
            f"{shown} is over the limit of {max_bytes} bytes for a {what}",
            hint="strip debug information and names from it, or raise the limit with wasmrt install --max-bytes",
        ) from None
    except FileNotFoundError:
        longer = path.with_name(f"{path.name}.wasm")
        found = os.path.isfile(longer)  # noqa: PTH113 - no error where the longer name is too long
        hint = f"did you mean {longer.name}?" if found else "check the path"
        raise SourceError(f"there is no {what} {shown}", hint=hint) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or "not a path"
        raise SourceError(
            f"the {what} {shown} cannot be read ({reason})", hint=f"give the path of a {what} that you may read"
        ) from error
