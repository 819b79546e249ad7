"""Sources from which components are installed. A source provides the component, a name and the capability file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from wasmrt.core.errors import ComponentTooLargeError, SourceError
from wasmrt.core.files import Unfit, UnfitFileError, read_file
from wasmrt.core.limits import ARCHIVE_SUFFIXES, MAX_BUNDLE_BYTES, MAX_CAPABILITY_FILE_BYTES

SIDECAR_SUFFIX = ".capabilities.json"
BUNDLE_SUFFIX = ".sigstore.json"
"""Suffix of the file with a signature, after the whole name of the signed file."""
_PROJECT_FILE = "wasmrt.toml"
"""The project file in the folder with the source code of a tool."""
MANIFESTS = ("manifest.toml", _PROJECT_FILE)
"""Files that describe a package, in order of precedence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The contents of a source, which are not validated yet."""

    data: bytes = field(repr=False)
    name: str
    """The suggested name of the tool, which can be invalid."""
    origin: str
    """The source, as text for users."""
    sidecar: bytes | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()
    """Sentences that warn about the source."""
    package: str | None = None
    """The tools that the package lists, as text from `dump_tools`, or None if the component describes them itself."""
    resolved: str = ""
    """A reference to exactly this content, with its digest; the absolute path of files on this machine."""
    digest: str = ""
    """The digest of the fetched file or of its manifest in a registry, such as `sha256:HEX`."""
    bundles: tuple[bytes, ...] = field(default=(), repr=False)
    """Signature bundles of the content, which are not verified yet."""
    signed: tuple[str, ...] = ()
    """The SHA-256 digests that a signature must name, in hexadecimal: the component, archive or manifest, and then the
    capability file, unless that is a part of the former. Without them, no signature counts."""


class Source(Protocol):
    """A source from which a component can be installed."""

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Read the component and its capability file.

        Raises:
            SourceError: the component does not exist or cannot be read.
            ComponentTooLargeError: the component has more than `max_bytes`.
        """


@dataclass(frozen=True, slots=True)
class FileSource:
    """A component file. Its capability file is `sidecar`, or `NAME.capabilities.json` in the same folder."""

    path: Path
    sidecar: Path | None = None

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Read the component and its capability file.

        Raises:
            SourceError: a file is not a regular file, cannot be read, or is too large, or the component is older than
                a failed build.
        """
        data = read_source(self.path, "component", max_bytes=max_bytes)
        refuse_failed_build(self.path)
        beside = self.path.with_name(self.path.name.removesuffix(".wasm") + SIDECAR_SUFFIX)
        # `isfile` raises no error for names that are too long.
        path = self.sidecar or (beside if os.path.isfile(beside) else None)  # noqa: PTH113
        sidecar = None if path is None else read_capability_file(path)
        signed = digests_to_sign(data, sidecar)
        return Fetched(
            data=data,
            resolved=str(self.path.absolute()),
            digest=f"sha256:{signed[0]}",
            bundles=read_bundles(self.path),
            signed=signed,
            name=self.path.name.removesuffix(".wasm").removesuffix(".component"),
            origin=f"file {self.path.name}",
            sidecar=sidecar,
            warnings=() if self.sidecar is not None else tuple(_warn_about_stale(beside, sidecar)),
        )


@dataclass(frozen=True, slots=True)
class WithSignature:
    """A source with a separately provided signature, which replaces the signatures of the source."""

    source: Source
    bundle: bytes = field(repr=False)

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Read the source; see `Source.fetch`."""
        return replace(self.source.fetch(max_bytes=max_bytes), bundles=(self.bundle,))


def digests_to_sign(*contents: bytes | None) -> tuple[str, ...]:
    """Return the SHA-256 digest, in hexadecimal, of each argument that is not None."""
    return tuple(hashlib.sha256(each).hexdigest() for each in contents if each is not None)


def read_bundles(path: Path) -> tuple[bytes, ...]:
    """Return the signature next to a component or an archive, if there is one.

    Raises:
        SourceError: the signature cannot be read or is too large.
    """
    beside = path.with_name(path.name + BUNDLE_SUFFIX)
    return (read_signature(beside),) if os.path.isfile(beside) else ()  # noqa: PTH113 - as in `FileSource.fetch`


def read_signature(path: Path) -> bytes:
    """Read the file of a signature within its size bound.

    Raises:
        SourceError: the file cannot be read or is too large.
    """
    try:
        return read_source(path, "signature", max_bytes=MAX_BUNDLE_BYTES)
    except ComponentTooLargeError:
        raise SourceError(
            f"{path.name!r} has more than {MAX_BUNDLE_BYTES} bytes, the limit for a signature file"
        ) from None


def failed_build_mark(component: Path) -> Path:
    """Return the path of a marker file next to a component. The file exists if the last build has not succeeded."""
    return component.with_name(f"_{component.name.removesuffix('.wasm')}.failed")


def refuse_failed_build(component: Path) -> None:
    """Refuse a component if its last build failed: the file is then from an earlier build.

    Raises:
        SourceError: the last build of the component failed.
    """
    if os.path.lexists(failed_build_mark(component)):
        raise SourceError(
            f"the last build failed, so {component.name} is older than its source",
            code="build-failed", hint="correct the source, then run: wasmrt build",
        )  # fmt: skip


def is_package(path: Path) -> bool:
    """Return whether a path names a package: a folder, a manifest or an archive."""
    return path.is_dir() or path.name in MANIFESTS or path.name.endswith(ARCHIVE_SUFFIXES)


def _warn_about_stale(beside: Path, used: bytes | None) -> Iterator[str]:
    """Yield a warning if the copy of the capability file in the build folder differs from the project's file.

    `beside` is the path of the copy, and `used` its contents or None if the copy is missing.
    """
    project = beside.absolute().parent.parent
    original = project / beside.name
    if not (project / _PROJECT_FILE).is_file() or not os.path.isfile(original):  # noqa: PTH113 - as above
        return
    try:
        is_same = read_capability_file(original) == used
    except SourceError:  # the copy is installed even if the original cannot be read
        is_same = False
    if not is_same:
        state = "is missing from the build folder" if used is None else "in the build folder differs from the project's"
        yield f"{beside.name} {state}; to update the copy, run: wasmrt build"


def read_capability_file(path: Path) -> bytes:
    """Read a capability file within its size bound.

    Raises:
        SourceError: the file cannot be read or is too large.
    """
    try:
        return read_source(path, "capability file", max_bytes=MAX_CAPABILITY_FILE_BYTES)
    except ComponentTooLargeError as error:
        raise SourceError(
            f"{path.name!r} has more than {MAX_CAPABILITY_FILE_BYTES} bytes, the limit for a capability file",
            hint="write fewer, wider entries",
        ) from error


def read_source(path: Path, what: str, *, max_bytes: int) -> bytes:
    """Read a regular file of at most `max_bytes`. Error messages call the file `what`.

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
            hint="remove debug information and names from the file, or raise the limit: wasmrt install --max-bytes N",
        ) from None
    except FileNotFoundError:
        longer = path.with_name(f"{path.name}.wasm")
        found = os.path.isfile(longer)  # noqa: PTH113 - raises no error if the longer name is too long
        hint = "check the path" + ("; in a registry: oci://HOST/NAME:TAG" if ":" in path.name else "")
        hint = f"did you mean {longer.name}?" if found else hint
        raise SourceError(f"the {what} {shown} does not exist", hint=hint) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or "not a valid path"
        raise SourceError(
            f"the {what} {shown} cannot be read ({reason})", hint=f"give the path of a readable {what}"
        ) from error
