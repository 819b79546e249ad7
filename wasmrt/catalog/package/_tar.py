"""Read a gzipped tar archive of bounded size. Only files and folders are accepted."""

from __future__ import annotations

import tarfile
import zlib
from io import BytesIO
from typing import IO, cast

from wasmrt.catalog.package._names import Names
from wasmrt.core.errors import PackageError
from wasmrt.core.limits import MAX_PACKAGE_BYTES, MAX_PACKAGE_ENTRIES

_OVERHEAD_BYTES = 2048
"""The bytes that an entry takes in addition to its contents: header and padding."""


class _Bounded:
    """A stream of the unpacked archive. It raises an error when the unpacked size exceeds the maximum of a package."""

    def __init__(self, data: bytes) -> None:
        self._packed = BytesIO(data)
        self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._left = MAX_PACKAGE_BYTES + MAX_PACKAGE_ENTRIES * _OVERHEAD_BYTES
        self._waiting = b""

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        wanted = self._left + 1 if size < 0 else size
        while wanted > 0:
            if not self._waiting and not self._inflater.eof:
                self._waiting = self._packed.read(1 << 16)
            piece = self._inflater.decompress(self._waiting, wanted)
            self._waiting = self._inflater.unconsumed_tail
            if not piece and (self._inflater.eof or (not self._waiting and self._packed.tell() >= self._size())):
                break
            parts.append(piece)
            wanted -= len(piece)
            self._left -= len(piece)
            if self._left < 0:
                raise _too_large()
        return b"".join(parts)

    def _size(self) -> int:
        return self._packed.getbuffer().nbytes

    def check_whole(self) -> None:
        if not self._inflater.eof or self._inflater.unused_data:
            raise _broken("it is truncated, or has trailing data")


def read_tar_gz(data: bytes) -> dict[str, bytes]:
    """Return the files of a gzipped tar archive by name.

    Raises:
        PackageError: the archive is damaged, exceeds a bound, or has forbidden contents.
    """
    stream = _Bounded(data)
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as archive:
            files = _files(archive)
        while stream.read(1 << 20):  # read the data after the last entry, which counts towards the maximum, too
            pass
        stream.check_whole()
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, OverflowError, RecursionError):
        raise _broken("it is damaged") from None
    return files


def _files(archive: tarfile.TarFile) -> dict[str, bytes]:
    names, files, total = Names(), {}, 0
    for count, entry in enumerate(archive, 1):
        archive.members.clear()  # type: ignore[attr-defined]  # otherwise it stores every header
        if count > MAX_PACKAGE_ENTRIES:
            raise PackageError(f"the archive has more than {MAX_PACKAGE_ENTRIES} entries", code="package-entries")
        name = entry.name.removeprefix("./")
        if entry.isdir() and name in (".", ""):
            continue
        _check_kind(entry, name)
        names.add(name, is_folder=entry.isdir())
        if entry.isdir():
            continue
        total += entry.size
        if total > MAX_PACKAGE_BYTES:
            raise _too_large()
        contents = archive.extractfile(entry)
        files[name] = b"" if contents is None else contents.read()
        if len(files[name]) != entry.size:
            raise _broken(f"{name!r:.80} is damaged")
    return files


def _check_kind(entry: tarfile.TarInfo, name: str) -> None:
    if entry.issym() or entry.islnk():
        raise PackageError(f"the archive contains {name!r:.80}, which is a link", code="package-link")
    if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) or entry.sparse is not None:
        raise PackageError(f"the archive contains {name!r:.80}, which is not a regular file", code="package-device")


def _too_large() -> PackageError:
    return PackageError(f"the unpacked archive has more than {MAX_PACKAGE_BYTES:,} bytes", code="package-too-large")


def _broken(what: str) -> PackageError:
    return PackageError(f"invalid archive: {what}", code="package-broken")
