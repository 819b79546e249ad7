"""Read a gzipped tar archive of bounded size (ustar, pax, GNU long names). Only files and folders are accepted.

SECURITY: `tarfile` is not used. It takes quadratic time for extended headers, ends silently at a damaged header, and
reads numbers that other programs reject, so that they could see other files in the same archive.
"""

from __future__ import annotations

import re
import zlib
from io import BytesIO

from wasmrt.catalog.package._names import Names
from wasmrt.core.errors import PackageError
from wasmrt.core.limits import MAX_PACKAGE_BYTES, MAX_PACKAGE_ENTRIES, MAX_TAR_EXTENSION_BYTES

_BLOCK = 512
_OVERHEAD_BYTES = 4 * _BLOCK
"""The bytes that an entry takes in addition to its contents: headers and padding."""
_FILE, _FOLDER = (b"0", b"\0"), b"5"
_LINKS = (b"1", b"2")
_LONG_NAMES = {b"L": "path", b"K": "linkpath"}
_PAX, _GLOBAL_PAX = b"x", b"g"
_POSIX = b"ustar\0"
_OCTAL = re.compile(rb"\0*|[\0 ]*[0-7]+[\0 ]*")
_RECORD = re.compile(rb"([1-9][0-9]{0,7}) ([^=\n]{1,500})=")
_SIZE = re.compile(rb"0|[1-9][0-9]{0,11}")


class _Unpacked:
    """The unpacked archive. It raises an error when the unpacked size exceeds the maximum of a package."""

    def __init__(self, data: bytes) -> None:
        self._packed = BytesIO(data)
        self._size = len(data)
        self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._left = MAX_PACKAGE_BYTES + MAX_TAR_EXTENSION_BYTES + MAX_PACKAGE_ENTRIES * _OVERHEAD_BYTES
        self._waiting = b""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end."""
        parts: list[bytes] = []
        while size > 0:
            if not self._waiting and not self._inflater.eof:
                self._waiting = self._packed.read(1 << 16)
            piece = self._inflater.decompress(self._waiting, size)
            self._waiting = self._inflater.unconsumed_tail
            if not piece and (self._inflater.eof or (not self._waiting and self._packed.tell() >= self._size)):
                break
            parts.append(piece)
            size -= len(piece)
            self._left -= len(piece)
            if self._left < 0:
                raise _make_too_large_error()
        return b"".join(parts)

    def contents(self, size: int) -> bytes:
        """Return the contents of an entry, and skip the padding after them."""
        if size > self._left:
            raise _make_too_large_error()
        data = self.read(size)
        padding = -size % _BLOCK
        if len(data) < size or len(self.read(padding)) < padding:
            raise _make_broken_error("it is truncated")
        return data

    def header(self) -> bytes:
        """Return the next header, or nothing at the end."""
        block = self.read(_BLOCK)
        if 0 < len(block) < _BLOCK:
            raise _make_broken_error("it is truncated")
        return block.strip(b"\0") and block

    def check_end(self) -> None:
        """Check that only zero bytes follow, and that the compressed data is complete."""
        while piece := self.read(1 << 20):
            if piece.strip(b"\0"):
                raise _make_broken_error("it has data after its end")
        if not self._inflater.eof or self._inflater.unused_data:
            raise _make_broken_error("it is truncated, or has trailing data")


def read_tar_gz(data: bytes) -> dict[str, bytes]:
    """Return the files of a gzipped tar archive by name.

    Raises:
        PackageError: the archive is damaged, exceeds a bound, or has forbidden contents.
    """
    unpacked = _Unpacked(data)
    try:
        files = _read_files(unpacked)
        unpacked.check_end()
    except zlib.error:
        raise _make_broken_error("it is damaged") from None
    return files


def _read_files(unpacked: _Unpacked) -> dict[str, bytes]:
    names, files = Names(), {}
    count = total = extensions = 0
    longer: dict[str, bytes] = {}
    while header := unpacked.header():
        kind, size = _check_header(header)
        count += 1
        if count > MAX_PACKAGE_ENTRIES:
            raise PackageError(f"the archive has more than {MAX_PACKAGE_ENTRIES} entries", code="package-entries")
        if kind in (*_LONG_NAMES, _PAX, _GLOBAL_PAX):
            extensions += size
            if extensions > MAX_TAR_EXTENSION_BYTES:
                raise _make_broken_error(f"its extended headers have more than {MAX_TAR_EXTENSION_BYTES:,} bytes")
            _extend(longer, kind, unpacked.contents(size))
            continue
        raw = longer.pop("path", None) or _read_short_name(header)
        if int(longer.pop("size", size)) != size:
            raise _make_broken_error("an entry has two sizes")
        name = _decode_name(raw).removeprefix("./")
        _check_kind(kind, size, name)
        if longer:
            raise _make_broken_error("a file has the target of a link")
        if kind == _FOLDER and name in (".", ""):
            continue
        names.add(name.rstrip("/") if kind == _FOLDER else name, is_folder=kind == _FOLDER)
        if kind == _FOLDER:
            continue
        total += size
        if total > MAX_PACKAGE_BYTES:
            raise _make_too_large_error()
        files[name] = unpacked.contents(size)
    if longer:
        raise _make_broken_error("an extended header has no entry")
    return files


def _check_header(header: bytes) -> tuple[bytes, int]:
    """Return the kind and the size in the header of an entry."""
    if sum(header[:148]) + sum(header[156:]) + 8 * ord(" ") != _read_octal(header[148:156]):
        raise _make_broken_error("a header is damaged")
    if header[124] >= 0x80:  # a binary number, for more than 8 GiB
        raise _make_too_large_error()
    return header[156:157], _read_octal(header[124:136])


def _read_octal(field: bytes) -> int:
    if not _OCTAL.fullmatch(field):
        raise _make_broken_error("a header has an invalid number")
    return int(field.strip(b"\0 ") or b"0", 8)


def _read_short_name(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == _POSIX else b""
    return prefix + b"/" + name if prefix else name


def _extend(longer: dict[str, bytes], kind: bytes, data: bytes) -> None:
    """Add the name, the size and the link target in an extended header to `longer`, for the next entry."""
    if kind in _LONG_NAMES:
        found = {_LONG_NAMES[kind]: data.removesuffix(b"\0")}
    else:
        found = _read_pax_records(data)
        if found and kind == _GLOBAL_PAX:
            raise _make_broken_error("a header for all entries sets a name or size")
    if longer.keys() & found.keys():
        raise _make_broken_error("an entry has two names or sizes")
    longer |= found


def _read_pax_records(data: bytes) -> dict[str, bytes]:
    """Return the records of an extended header that matter here: `path`, `size` and `linkpath`."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(data):
        record = _RECORD.match(data, at, at + 600)
        end = at + int(record[1]) if record else 0
        if record is None or not record.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise _make_broken_error("an extended header is damaged")
        key, value = record[2], data[record.end() : end - 1]
        if key.startswith((b"GNU.sparse", b"SCHILY.realsize")):
            raise PackageError("the archive contains a sparse file", code="package-device")
        if key in (b"path", b"size", b"linkpath"):
            if key.decode() in found or (key == b"size" and not _SIZE.fullmatch(value)):
                raise _make_broken_error("an extended header sets an invalid size, or two names or sizes")
            found[key.decode()] = value
        at = end
    return found


def _check_kind(kind: bytes, size: int, name: str) -> None:
    if kind in _LINKS:
        raise PackageError(f"the archive contains {name!r:.80}, which is a link", code="package-link")
    if kind not in (*_FILE, _FOLDER):
        raise PackageError(f"the archive contains {name!r:.80}, which is not a regular file", code="package-device")
    if kind == _FOLDER and size:
        raise _make_broken_error("a folder entry has data")


def _decode_name(raw: bytes) -> str:
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError:
        raise PackageError(f"the archive contains a non-ASCII name: {raw[:80]!r}", code="package-name") from None


def _make_too_large_error() -> PackageError:
    return PackageError(f"the unpacked archive has more than {MAX_PACKAGE_BYTES:,} bytes", code="package-too-large")


def _make_broken_error(what: str) -> PackageError:
    return PackageError(f"invalid archive: {what}", code="package-broken")
