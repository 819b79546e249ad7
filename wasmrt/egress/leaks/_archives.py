"""Decompress content at any offset of a text: gzip, zlib, raw deflate, bzip2, xz, lzip, and zip members.

Checksums are ignored, because some readers ignore them. If a stream is corrupt, its output before the error is
searched. A text with the header of a format that cannot be decompressed here is marked as not completely scanned.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from random import SystemRandom
from string import ascii_lowercase
from typing import Any, NamedTuple

from wasmrt.core.limits import KIB, MIN_SECRET_CHARS
from wasmrt.egress.leaks._closed_formats import CLOSED_MAGIC, is_closed_header, is_closed_zip_member
from wasmrt.egress.leaks._decompressors import (
    LZMA_MEMORY_BYTES,
    STEP_BYTES,
    STEP_OUT_BYTES,
    BrokenError,
    Inflate,
    Stored,
    Stream,
    open_bzip2,
    open_lzma,
    open_xz,
)
from wasmrt.egress.leaks._linear import compile_linear
from wasmrt.egress.leaks._model import DecodeBudget

_ATTEMPT_BYTES = 1 * KIB
"""The cost of trying one possible start, in decoded bytes."""
_FIRST_BYTES = 64
"""Number of bytes that are decompressed first, because most possible starts are not streams."""
SEPARATOR = b"\n\0" + "".join(SystemRandom().choices(ascii_lowercase, k=10)).encode() + b"\0\n"
"""Bytes between texts that are searched together. They are random, so that no secret is found across them."""

_SEPARATORS = re.compile(SEPARATOR)

GZIP, _ZIP, _BZIP2, _XZ, _LZIP = b"\x1f\x8b\x08", b"PK\x03\x04", b"BZh", b"\xfd7zXZ\0", b"LZIP\x01"
_ZLIB = frozenset(
    (cmf << 8 | flg).to_bytes(2, "big")
    for cmf in range(0x08, 0x80, 0x10)
    for flg in range(31 - (cmf << 8) % 31, 256, 31)
    if not flg & 0x20
)
"""The first two bytes of zlib data (RFC 1950, 2.2): deflate with any window size and without a dictionary."""
MAGIC = (GZIP, _ZIP, _BZIP2, _XZ, _LZIP, b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""The first bytes of formats that are usually at the start of a text."""
_OF_MEMBERS = (GZIP, _BZIP2, _XZ)
"""The first bytes of formats with several members, whose contents are joined."""
_HEADS = (*MAGIC, b"]\0\0", *CLOSED_MAGIC)
"""The first bytes of all formats but raw deflate."""
_GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT, _GZIP_CRC = 4, 8, 16, 2
_STORED, _DEFLATED, _BZIP2ED, _LZMAED = 0, 8, 12, 14
_LZMA = (
    rb"]\x00\x00[\x00-\xff][\x00-\x08](?:\xff{8}|[\x00-\xff]{5}\x00{3})\x00"
    rb"|[\x00-\xe0]\x00[\x00-\xff]{2}[\x00-\x08]\xff{8}\x00"
)
"""An expression for the header of an `.lzma` file and the first byte of its content. The header must have the default
properties, or state no size."""
_TEXT = bytes(range(32, 127)) + b"\t\r\n"


class _StreamStart(NamedTuple):
    """The start of compressed bytes, and their decompressor."""

    at: int
    stream: Callable[[], Stream]


class Unpacked(NamedTuple):
    """The content of compressed bytes that begin at `start`."""

    start: int
    data: bytes
    sound: bool
    """False if the content is probably the output of bytes that were not compressed."""


@lru_cache(maxsize=1)
def _compile_magic() -> Any:
    return compile_linear(magic_pattern())


def magic_pattern() -> bytes:
    """Return one expression for the first bytes of all recognised formats."""
    pairs: dict[int, list[int]] = {}
    for cmf, flg in _ZLIB:
        pairs.setdefault(cmf, []).append(flg)
    zlibs = (b"\\x%02x[%b]" % (cmf, b"".join(b"\\x%02x" % flg for flg in flgs)) for cmf, flgs in pairs.items())
    exact = (b"".join(b"\\x%02x" % byte for byte in magic) for magic in (GZIP, _ZIP, _XZ, _LZIP, *CLOSED_MAGIC))
    return b"|".join((*exact, rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", _LZMA, *zlibs))


def find_archives(data: bytes, budget: DecodeBudget) -> Iterator[Unpacked]:
    """Yield all compressed content in `data`, as far as the budget allows.

    Raw deflate has no magic number. It is tried at the start of `data` and after each separator.
    """
    if not data or data.isascii():
        return  # compressed data is never all ASCII, unless it was crafted to be
    yield from _find_raw_deflate(data, budget)
    members = []
    for unpacked in _find_formats(data, budget):
        yield unpacked
        if data.startswith(_OF_MEMBERS, unpacked.start):
            members.append(unpacked.data)
    if len(members) > 1 and budget.charge(sum(map(len, members))):
        yield Unpacked(0, b"".join(members), sound=False)


def _find_raw_deflate(data: bytes, budget: DecodeBudget) -> Iterator[Unpacked]:
    for start in (0, *(found.end() for found in _SEPARATORS.finditer(data))):
        head = data[start : start + _FIRST_BYTES]
        if not head.translate(None, _TEXT):
            continue
        if _may_be_deflate(head):
            yield from _decompress(data, start, _StreamStart(start, Inflate), budget, cost=_FIRST_BYTES)
        elif not budget.charge(_FIRST_BYTES):
            return


def _find_formats(data: bytes, budget: DecodeBudget) -> Iterator[Unpacked]:
    position = 0
    broken: set[bytes] = set()
    while (found := _compile_magic().search(data, position)) is not None:
        start, position = found.start(), found.start() + 2
        head = data[position : position + _FIRST_BYTES] if data[start:position] in _ZLIB else b""
        if head in broken:
            continue  # the same content again, as in images and sounds with a repeated pattern
        cost = _ATTEMPT_BYTES
        if head and not _may_start(head, 0):
            broken.add(head)
            cost = _FIRST_BYTES
        if (stream_start := _find_stream_start(data, start)) is not None:
            yield from _decompress(data, start, stream_start, budget, cost)
        elif _is_closed(data, start):
            budget.exceeded = True
        if budget.left < 0:
            return


def find_first_archive(data: bytes, start: int, *, from_beginning: bool) -> int:
    """Return the first offset from `start` on at which compressed content may begin, or -1.

    The content may be incomplete. `from_beginning` means that `data` begins with the first byte of the text.
    """
    if data.isascii():
        return -1
    if from_beginning and start == 0 and data[:_FIRST_BYTES].translate(None, _TEXT) and _may_start(data, 0):
        return 0
    position = max(0, start)
    while (found := _compile_magic().search(data, position)) is not None:
        at: int = found.start()
        if data[at : at + 2] in _ZLIB:
            if _may_start(data, at + 2):
                return at
        elif len(data) - at < _FIRST_BYTES or _find_stream_start(data, at) is not None or _is_closed(data, at):
            return at
        position = at + 2
    return -1


def is_archive(data: bytes) -> bool:
    """Return whether a complete text begins like an archive, or is raw deflate of at least `MIN_SECRET_CHARS` bytes."""
    if data[:2] in _ZLIB or data.startswith(_HEADS):
        return True
    return _may_be_deflate(data, STEP_OUT_BYTES, least=MIN_SECRET_CHARS)


def begins_archive(data: bytes, at: int) -> bool:
    """Return whether the two bytes of a possible zlib header at `at` are followed by deflate."""
    return data[at : at + 2] in _ZLIB and _may_start(data, at + 2)


def _may_be_deflate(head: bytes, most: int = MIN_SECRET_CHARS, *, least: int = 0) -> bool:
    """Return whether `head` can be the beginning of raw deflate, whose first `most` bytes of output have no error.

    The type of the first block, and the length of a stored block, are checked first (RFC 1951, 3.2.3 and 3.2.4).
    """
    kind = head[0] & 6 if head else 6
    if kind == 6 or (kind == 0 and len(head) > 4 and not head[1] ^ head[3] == head[2] ^ head[4] == 255):
        return False
    try:
        return len(zlib.decompressobj(-zlib.MAX_WBITS).decompress(head, most)) >= least
    except zlib.error:
        return False


def _may_start(data: bytes, at: int) -> bool:
    """Return whether the bytes from `at` on may be the beginning of a deflate stream that continues after `data`.

    A stream with an error does not continue, so a scan of `data` finds all its content.
    """
    return at == len(data) or _may_be_deflate(data[at : at + 4 * _FIRST_BYTES], STEP_OUT_BYTES)


def _find_stream_start(data: bytes, at: int) -> _StreamStart | None:
    """Find the compressed bytes of the archive at `at`. Return None if the archive cannot be decompressed."""
    head = data[at : at + 6]
    if head[:2] in _ZLIB:
        return _StreamStart(at + 2, Inflate)
    if head[:3] == GZIP:
        return _StreamStart(_find_gzip_body(data, at), Inflate)
    if head[:3] == _BZIP2:
        return _StreamStart(at, open_bzip2)
    if head == _XZ or head[:3] == b"]\0\0" or data[at + 5 : at + 13] == b"\xff" * 8:
        return _StreamStart(at, open_xz)
    if head[:5] == _LZIP and (size := _read_lzip_window(head)) <= LZMA_MEMORY_BYTES:
        return _StreamStart(at + 6, partial(open_lzma, 93, size)) if size else None
    return _find_zip_member(data, at) if head[:4] == _ZIP else None


def _is_closed(data: bytes, at: int) -> bool:
    """Return whether `at` has a valid header of content that cannot be decompressed."""
    if data.startswith(_ZIP, at):
        return is_closed_zip_member(data, at)
    return _read_lzip_window(data[at : at + 6]) > 0 if data.startswith(_LZIP, at) else is_closed_header(data, at)


def _read_lzip_window(head: bytes) -> int:
    """Return the window size of an lzip header, or 0 if it is invalid."""
    power, share = head[5] & 0x1F if len(head) > 5 else 0, head[5] >> 5 if len(head) > 5 else 0
    return (1 << power) - (1 << power >> 4) * share if 12 <= power <= 29 else 0


def _find_gzip_body(data: bytes, at: int) -> int:
    # RFC 1952, 2.3: the header's length depends on its flags.
    flags, body = data[at + 3] if at + 3 < len(data) else 0, at + 10
    if flags & _GZIP_EXTRA:
        body += 2 + int.from_bytes(data[body : body + 2], "little")
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & flag:
            end = data.find(0, body)
            body = len(data) if end < 0 else end + 1
    return body + (2 if flags & _GZIP_CRC else 0)


def _find_zip_member(data: bytes, at: int) -> _StreamStart | None:
    # APPNOTE.TXT 4.3.7: a local file header, with its flags, its method, and the lengths of name and extra field.
    flags, method = (int.from_bytes(data[at + low : at + low + 2], "little") for low in (6, 8))
    name, extra = (int.from_bytes(data[at + low : at + low + 2], "little") for low in (26, 28))
    body = at + 30 + name + extra
    if flags & 1:
        return None
    if method == _LZMAED:  # APPNOTE.TXT 5.8.8: the version, the size of the properties, and five properties
        window = int.from_bytes(data[body + 5 : body + 9], "little")
        if len(data) <= body + 9 or window > LZMA_MEMORY_BYTES:
            return None
        return _StreamStart(body + 9, partial(open_lzma, data[body + 4], window))
    if method == _STORED:
        return _StreamStart(body, partial(Stored, int.from_bytes(data[at + 18 : at + 22], "little")))
    streams: dict[int, Callable[[], Stream]] = {_DEFLATED: Inflate, _BZIP2ED: open_bzip2}
    return _StreamStart(body, streams[method]) if method in streams else None


def _decompress(
    data: bytes, start: int, stream_start: _StreamStart, budget: DecodeBudget, cost: int = _ATTEMPT_BYTES
) -> Iterator[Unpacked]:
    budget.check()
    if not budget.charge(cost):
        return
    try:
        stream = stream_start.stream()
    except ImportError:  # Python was built without bz2 or lzma
        budget.exceeded = True
        return
    pieces: list[bytes] = []
    try:
        for piece in _decompress_pieces(stream, data, stream_start.at, budget):
            pieces.append(piece)
    except BrokenError as broken:
        pieces.append(broken.content)
        budget.charge(len(broken.content))
    if content := b"".join(pieces):
        yield Unpacked(start, content, _is_sound(data, start, content, stream))


def _is_sound(data: bytes, start: int, content: bytes, stream: Stream) -> bool:
    """Return whether the content of zlib or raw deflate is intact; for other formats, return True.

    zlib must be followed by its checksum. Raw deflate must have an end, at the end of the text.
    """
    if data[start : start + 2] in _ZLIB:
        return data.find(zlib.adler32(content).to_bytes(4, "big"), start + 2) >= 0
    if isinstance(stream, Inflate) and data[start : start + 2] not in (GZIP[:2], _ZIP[:2]):
        return stream.ended and stream.rest in (b"", SEPARATOR)
    return True


def _decompress_pieces(stream: Stream, data: bytes, position: int, budget: DecodeBudget) -> Iterator[bytes]:
    """Yield the output of a stream. Both input and output are charged to the budget."""
    size = _FIRST_BYTES
    while position < len(data) and not stream.ended:
        piece = stream.feed(data[position : position + size], STEP_OUT_BYTES)
        if not budget.charge(size // 4):
            return
        position, size = position + size, min(4 * size, STEP_BYTES)  # most streams are short
        while piece:
            if not budget.charge(len(piece)):
                return
            yield piece
            budget.check()
            piece = stream.more(STEP_OUT_BYTES)
        budget.check()
