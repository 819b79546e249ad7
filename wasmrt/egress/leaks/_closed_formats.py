"""Recognise compressed formats that cannot be decompressed here: Zstandard, 7-Zip, RAR, LZ4, compress, encrypted zip.

SECURITY: the first bytes of a format only count if the header after them is valid, because texts and programs contain
these bytes too. Checksums are not verified, because some readers ignore them.
"""

from __future__ import annotations

_ZSTD, _SEVEN_ZIP, _RAR = b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07"
_LZ4, _LZ4_LEGACY, _COMPRESS, _SNAPPY = b"\x04\x22\x4d\x18", b"\x02\x21\x4c\x18", b"\x1f\x9d", b"\xff\x06\0\0sNaPpY"
CLOSED_MAGIC = (_ZSTD, _SEVEN_ZIP, _RAR, _LZ4, _LZ4_LEGACY, _COMPRESS, _SNAPPY)
_MAX_LZ4_BYTES, _MAX_LEGACY_BYTES, _MAX_ZSTD_BYTES, _MAX_SNAPPY_BYTES = 4 << 20, 9 << 20, 128 << 10, 80 << 10
"""The largest block of each format."""
_BLOCKS = 8
_ZIP_METHODS = frozenset((*range(1, 7), 9, 10, 16, 18, 19, 20, *range(93, 100)))
"""Methods of zip members that cannot be decompressed here (APPNOTE.TXT 4.4.5)."""
_CLEAR, _CODE_BITS, _CODES = 256, 9, 12


def is_closed_header(data: bytes, at: int) -> bool:
    """Return whether a valid header of a closed format begins at `at`, where one of `CLOSED_MAGIC` is."""
    head = data[at : at + 64]
    if head.startswith(_ZSTD):
        return _is_zstd(data, at)
    if head.startswith(_SEVEN_ZIP):  # version 0.x, and the offset and the size of the last header
        offset, size = _read_number(head, 12, 8), _read_number(head, 20, 8)
        return len(head) >= 32 and head[6] == 0 and offset < 1 << 48 and 0 < size < 1 << 40
    if head.startswith(_RAR):
        return _is_rar(head)
    if head.startswith(_LZ4):  # version 01, no reserved bits, and a first block that is not larger than allowed
        flags, most = head[4:5], head[5:6]
        first = 7 + (8 if flags and flags[0] & 8 else 0) + (4 if flags and flags[0] & 1 else 0)
        valid = len(head) >= first + 4 and flags[0] & 0xC2 == 0x40 and most[0] & 0x8F == 0 and most[0] >= 0x40
        return valid and 0 < _read_number(head, first, 4) & 0x7FFFFFFF <= _MAX_LZ4_BYTES
    if head.startswith(_LZ4_LEGACY):
        return 0 < _read_number(head, 4, 4) <= _MAX_LEGACY_BYTES
    if head.startswith(_SNAPPY):
        return head[10:11] in (b"\0", b"\1") and 0 < _read_number(head, 11, 3) <= _MAX_SNAPPY_BYTES
    return _is_compress(head[: 3 + _CODES * _CODE_BITS // 8])


def is_closed_zip_member(data: bytes, at: int) -> bool:
    """Return whether the local header at `at` is valid, and its member is encrypted or has a closed method."""
    version, flags, method = (_read_number(data, at + low, 2) for low in (4, 6, 8))
    name, extra = _read_number(data, at + 26, 2), _read_number(data, at + 28, 2)
    if len(data) < at + 31 or version & 0xFF > 100 or flags & 0xD000 or not 0 < name <= 4096:
        return False
    if min(data[at + 30 : at + 30 + name], default=0) < 32:
        return False  # a name without control characters follows, or these bytes are part of a program
    return at + 30 + name + extra < len(data) and (
        method in _ZIP_METHODS or (bool(flags & 1) and method in (0, 8, 12, 14))
    )


def _read_number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _is_zstd(data: bytes, at: int) -> bool:
    """Return whether the header of a frame and of each of its first blocks is valid (RFC 8878, 3.1.1)."""
    head = data[at : at + 5]
    if len(head) < 5 or head[4] & 8:
        return False
    single = head[4] & 0x20
    block = at + 5 + (0 if single else 1) + (0, 1, 2, 4)[head[4] & 3] + (1 if single else 0, 2, 4, 8)[head[4] >> 6]
    for number in range(_BLOCKS):
        header = _read_number(data, block, 3)
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if block + 3 > len(data):
            return number > 0
        if kind == 3 or size > _MAX_ZSTD_BYTES or not (size or last):
            return False
        if last:
            return True
        block += 3 + (1 if kind == 1 else size)
    return True


def _is_rar(head: bytes) -> bool:
    """Return whether a main or encryption header, of version 5 or of an earlier version, follows the signature."""
    if head[6:8] == b"\x01\0":  # CRC-32, size of one to three bytes, type
        at = 12
        while at < 14 and head[at : at + 1] >= b"\x80":
            at += 1
        return head[at + 1 : at + 2] in (b"\x01", b"\x04")
    return head[6:7] == b"\0" and head[9:10] == b"\x73" and _read_number(head, 12, 2) >= 13


def _is_compress(head: bytes) -> bool:
    """Return whether LZW codes follow a valid header. A code is valid if the table already has an entry for it."""
    if len(head) < 5 or head[2] & 0x60 or not _CODE_BITS <= head[2] & 0x1F <= 16:
        return False
    bits, count = int.from_bytes(head[3:], "little"), (len(head) - 3) * 8 // _CODE_BITS
    codes = [bits >> at * _CODE_BITS & 0x1FF for at in range(count)]
    return codes[0] < _CLEAR and all(code <= _CLEAR + at for at, code in enumerate(codes) if at)
