"""Read a zip archive of bounded size (PKWARE APPNOTE 6.3). Only stored and deflated files are accepted, and no zip64.

SECURITY: the sizes in the central directory are checked before a file is read, and a file that is larger than its
stated size is refused before it is unpacked completely. Some programs read an archive without its directory, so the
files must be one after another, and nothing else may be between them.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from wasmrt.catalog.package._names import Names
from wasmrt.core.errors import PackageError
from wasmrt.core.limits import MAX_PACKAGE_BYTES, MAX_PACKAGE_ENTRIES

_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_STORED, _DEFLATED = 0, 8
_UNIX = (3, 19)
_MAX_COMMENT = 65535
_MAX_CENTRAL_BYTES = MAX_PACKAGE_ENTRIES * 1024
_DESCRIPTOR_BYTES = 24
"""The maximum size of the optional data descriptor after a file."""


class _Entry(NamedTuple):
    name: str
    method: int
    crc: int
    packed: int
    size: int
    at: int


def read_zip(data: bytes) -> dict[str, bytes]:
    """Return the files of a zip archive by name.

    Raises:
        PackageError: the archive is damaged, exceeds a bound, or has forbidden contents.
    """
    names, files, total = Names(), {}, 0
    count, size, start = _end(data)
    places = [(start, start)]
    for entry in _iter_entries(data, count, size, start):
        is_folder = entry.name.endswith("/")
        names.add(entry.name.rstrip("/") if is_folder else entry.name, is_folder=is_folder)
        places.append(_find_place(data, entry))
        if is_folder:
            if entry.size:
                raise _make_broken_error("a folder entry has data")
            continue
        total += entry.size
        if total > MAX_PACKAGE_BYTES:
            raise PackageError(
                f"the unpacked archive has more than {MAX_PACKAGE_BYTES:,} bytes", code="package-too-large"
            )
        files[entry.name] = _read_contents(data, entry, places[-1][1])
    _check_places(places)
    return files


def _iter_entries(data: bytes, count: int, size: int, start: int) -> Iterator[_Entry]:
    at, stop = start, start + size
    for _ in range(count):
        if at + _CENTRAL.size > stop:
            raise _make_broken_error("its directory is truncated")
        (magic, made_by, _, flags, method, _, _, crc, packed, unpacked, name_size, extra, comment, disk, _, attributes,
         local) = _CENTRAL.unpack_from(data, at)  # fmt: skip
        if magic != b"PK\x01\x02" or disk:
            raise _make_broken_error("its directory is damaged")
        raw = data[at + _CENTRAL.size : at + _CENTRAL.size + name_size]
        at += _CENTRAL.size + name_size + extra + comment
        if 0xFFFFFFFF in (packed, unpacked, local):
            raise _make_broken_error("zip64 is not supported")
        name = _decode_name(raw)
        if flags & _ENCRYPTED:
            raise _make_broken_error(f"{name!r:.80} is encrypted")
        if method not in (_STORED, _DEFLATED):
            raise _make_broken_error(f"{name!r:.80} has an unknown compression method")
        _check_kind(name, made_by >> 8, attributes)
        yield _Entry(name, method, crc, packed, unpacked, local)
    if at != stop:
        raise _make_broken_error("its directory has more data than entries")


def _end(data: bytes) -> tuple[int, int, int]:
    """Return the number of entries in the central directory, and the size and the offset of the directory."""
    found = data.rfind(b"PK\x05\x06", max(0, len(data) - _END.size - _MAX_COMMENT))
    if found < 0 or found + _END.size > len(data):
        raise _make_broken_error("it has no directory")
    _, disk, first_disk, here, count, size, start, comment = _END.unpack_from(data, found)
    if count > MAX_PACKAGE_ENTRIES or size > _MAX_CENTRAL_BYTES:
        raise PackageError(f"the archive has more than {MAX_PACKAGE_ENTRIES} entries", code="package-entries")
    if disk or first_disk or here != count or found + _END.size + comment != len(data) or start + size != found:
        raise _make_broken_error("its directory has a wrong offset")
    return count, size, start


def _check_kind(name: str, system: int, attributes: int) -> None:
    mode = attributes >> 16 if system in _UNIX else 0
    if stat.S_ISLNK(mode):
        raise PackageError(f"the archive contains {name!r:.80}, which is a link", code="package-link")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise PackageError(f"the archive contains {name!r:.80}, which is not a file", code="package-device")
    if stat.S_ISDIR(mode) != name.endswith("/") and stat.S_IFMT(mode):
        raise _make_broken_error(f"{name!r:.80} is both a file and a folder")


def _find_place(data: bytes, entry: _Entry) -> tuple[int, int]:
    """Return the offset at which an entry begins (with its local header), and the offset at which its contents end."""
    try:
        magic, _, flags, method, *_, name_size, extra = _LOCAL.unpack_from(data, entry.at)
    except struct.error:
        raise _make_broken_error("a file is outside the archive") from None
    start = entry.at + _LOCAL.size
    # Some readers use the local header, others the header in the directory, so both must be equal.
    if magic != b"PK\x03\x04" or method != entry.method or flags & _ENCRYPTED:
        raise _make_broken_error(f"{entry.name!r:.80} has two different headers")
    if _decode_name(data[start : start + name_size]) != entry.name:
        raise _make_broken_error(f"{entry.name!r:.80} has two different names")
    return entry.at, start + name_size + extra + entry.packed


def _check_places(places: list[tuple[int, int]]) -> None:
    at = 0
    for start, end in sorted(places):
        if not 0 <= start - at <= _DESCRIPTOR_BYTES:
            raise _make_broken_error("its files overlap, or have other data between them")
        at = end


def _read_contents(data: bytes, entry: _Entry, end: int) -> bytes:
    packed = data[end - entry.packed : end]
    if len(packed) != entry.packed:
        raise _make_broken_error("a file is outside the archive")
    contents = packed if entry.method == _STORED else _inflate(packed, entry)
    if len(contents) != entry.size or zlib.crc32(contents) != entry.crc:
        raise _make_broken_error(f"{entry.name!r:.80} is damaged")
    return contents


def _inflate(packed: bytes, entry: _Entry) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        contents = inflater.decompress(packed, entry.size + 1)
    except zlib.error:
        raise _make_broken_error(f"{entry.name!r:.80} is damaged") from None
    if len(contents) > entry.size:
        raise PackageError(f"{entry.name!r:.80} in the archive is larger than stated", code="package-too-large")
    return contents


def _decode_name(raw: bytes) -> str:
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError:
        raise PackageError(f"the archive contains a non-ASCII name: {raw[:80]!r}", code="package-name") from None


def _make_broken_error(what: str) -> PackageError:
    return PackageError(f"invalid archive: {what}", code="package-broken")
