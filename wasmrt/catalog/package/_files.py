"""Access to the files of a package, in a folder or in an archive.

SECURITY: archives are unpacked in memory, never to disk. Links in a folder are not followed.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from wasmrt.catalog.package._names import check_name
from wasmrt.catalog.package._tar import read_tar_gz
from wasmrt.catalog.package._zip import read_zip
from wasmrt.catalog.sources import MANIFESTS, refuse_failed_build
from wasmrt.core.errors import PackageError, SourceError
from wasmrt.core.files import Unfit, UnfitFileError, open_file, read_file
from wasmrt.core.limits import MAX_ARCHIVE_BYTES, MAX_PACKAGE_DEPTH, MAX_PACKAGE_ENTRIES


class PackageFiles(Protocol):
    """The files of one package."""

    origin: str
    """The source of the package, as text for users."""

    def has(self, name: str) -> bool:
        """Return whether the package contains a file or folder with this name."""

    def read(self, name: str, *, max_bytes: int) -> bytes:
        """Return the contents of a file.

        Raises:
            PackageError: the file is missing, is not a regular file, or has more than `max_bytes`.
        """


class FolderFiles:
    """The files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.origin = f"package {folder.resolve().name}"

    def has(self, name: str) -> bool:
        return os.path.lexists(self._folder / check_name(name))

    def read(self, name: str, *, max_bytes: int) -> bytes:
        *above, last = check_name(name).split("/")
        if name.endswith(".wasm"):
            refuse_failed_build(self._folder / name)
        try:
            with ExitStack() as opened:
                flags = os.O_RDONLY | os.O_DIRECTORY
                at = os.open(self._folder, flags)
                opened.callback(os.close, at)
                for part in above:
                    at = os.open(part, flags | os.O_NOFOLLOW, dir_fd=at)
                    opened.callback(os.close, at)
                file, status = opened.enter_context(open_file(last, follow_link=False, folder=at))
                if status.st_size > max_bytes:
                    raise UnfitFileError(last, Unfit.TOO_LARGE)
                return file.read(max_bytes)
        except FileNotFoundError:
            raise make_missing_error(name) from None
        except OSError as error:
            code = "package-too-large" if getattr(error, "reason", None) is Unfit.TOO_LARGE else "package-link"
            raise PackageError(f"cannot read the package's file {name} ({error.strerror})", code=code) from None

    def names(self) -> list[str]:
        """Return the sorted names of all files in the folder and its subfolders, without names that begin with a dot.

        Raises:
            PackageError: the folder contains a link or device, too many files, or too many levels of subfolders.
        """
        found: list[str] = []
        self._walk("", found, 0)
        return sorted(found)

    def _walk(self, below: str, found: list[str], depth: int) -> None:
        if depth > MAX_PACKAGE_DEPTH:
            raise PackageError(f"{below} is nested too deeply", code="package-name")
        for entry in sorted(os.scandir(self._folder / below), key=lambda entry: entry.name):
            if entry.name.startswith("."):
                continue
            name = check_name(f"{below}/{entry.name}" if below else entry.name)
            if entry.is_symlink():
                raise PackageError(f"{name} is a link", code="package-link")
            if entry.is_dir(follow_symlinks=False):
                self._walk(name, found, depth + 1)
            elif entry.is_file(follow_symlinks=False):
                found.append(name)
            else:
                raise PackageError(f"{name} is not a regular file", code="package-device")
            if len(found) > MAX_PACKAGE_ENTRIES:
                raise PackageError(f"the folder has more than {MAX_PACKAGE_ENTRIES} files", code="package-entries")


class ArchiveFiles:
    """The unpacked files of an archive. If all files are in one top-level folder, the names begin below that folder."""

    def __init__(self, files: dict[str, bytes], origin: str) -> None:
        tops = {name.partition("/")[0] for name in files}
        if len(tops) == 1 and not any(name in files for name in MANIFESTS):
            files = {name.partition("/")[2]: contents for name, contents in files.items() if "/" in name}
        self._files = files
        self.origin = origin

    def has(self, name: str) -> bool:
        return check_name(name) in self._files

    def read(self, name: str, *, max_bytes: int) -> bytes:
        contents = self._files.get(check_name(name))
        if contents is None:
            raise make_missing_error(name)
        if len(contents) > max_bytes:
            raise PackageError(f"the package's file {name} has more than {max_bytes:,} bytes", code="package-too-large")
        return contents

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        return sorted(self._files)


def make_missing_error(name: str) -> PackageError:
    """Return the error for a missing file of a package."""
    return PackageError(
        f"the package has no file {name}", code="package-missing", hint="add the file, or fix the manifest"
    )


def open_files(path: Path) -> FolderFiles | ArchiveFiles:
    """Open a package, given the path of its folder, of its manifest, or of an archive (zip, tar.gz).

    Raises:
        SourceError: the package cannot be read.
        PackageError: the archive is invalid.
    """
    if path.is_dir():
        return FolderFiles(path)
    if path.name in MANIFESTS:
        return FolderFiles(path.parent)
    return ArchiveFiles(read_archive(read_archive_file(path)), f"package {path.name}")


def read_archive_file(path: Path) -> bytes:
    """Return the bytes of an archive.

    Raises:
        SourceError: the archive cannot be read.
        PackageError: the archive is too large.
    """
    try:
        return read_file(path, max_bytes=MAX_ARCHIVE_BYTES, follow_link=True)
    except UnfitFileError as error:
        if error.reason is Unfit.TOO_LARGE:
            raise PackageError(f"the archive is over {MAX_ARCHIVE_BYTES:,} bytes", code="package-too-large") from None
        raise SourceError(f"{path.name!r} {error.reason}", hint="pass the path of a package") from None
    except OSError as error:
        raise SourceError(
            f"the package {path.name!r} cannot be read ({error.strerror})", hint="check the path"
        ) from error


def read_archive(data: bytes) -> dict[str, bytes]:
    """Unpack an archive, whose format is detected from the contents, and return its files by name.

    Raises:
        PackageError: the format is unknown, or the archive is invalid.
    """
    if len(data) > MAX_ARCHIVE_BYTES:
        raise PackageError(f"the archive is over {MAX_ARCHIVE_BYTES:,} bytes", code="package-too-large")
    if data.startswith(b"PK"):
        return read_zip(data)
    if data.startswith(b"\x1f\x8b"):
        return read_tar_gz(data)
    raise PackageError("the archive is neither zip nor tar.gz", code="package-broken")
