"""Decompress content at any offset of a text: gzip, zlib, raw deflate, bzip2, xz, and the members of zip archives.

Checksums are ignored, because some readers ignore them. If a stream is corrupt, its output before the error is
searched. A text with a known format that cannot be decompressed here is marked as not completely scanned.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from wasmrt.core.limits import KIB, MIB
from wasmrt.egress.leaks._linear import compile_linear
from wasmrt.egress.leaks._model import DecodeBudget

_ATTEMPT_BYTES = 1 * KIB
"""The cost of trying one possible start, in decoded bytes."""
_FIRST_BYTES = 64
"""Number of bytes that are decompressed first, because most possible starts are not streams."""
_STEP_BYTES = 64 * KIB
_STEP_OUT_BYTES = MIB
"""Maximum numbers of input bytes and output bytes between two deadline checks."""
_LEAST_STREAM = 64
_WORDS = rb"(?:[\x20-\x7e]\0?){6}"
"""Shorter output must contain six characters in a row, the length of the shortest secret, to count as a stream."""
_XZ_MEMORY_BYTES = 64 * MIB

GZIP, _ZIP, _BZIP2, _XZ = b"\x1f\x8b\x08", b"PK\x03\x04", b"BZh", b"\xfd7zXZ\0"
_CLOSED = (b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x04\x22\x4d\x18", b"LZIP", b"\x1f\x9d\x90")
"""Zstandard, 7-Zip, RAR, LZ4, lzip and compress: recognised by their first bytes, but not decompressed."""
_ZLIB = frozenset(
    (cmf << 8 | flg).to_bytes(2, "big")
    for cmf in range(0x08, 0x80, 0x10)
    for flg in range(31 - (cmf << 8) % 31, 256, 31)
    if not flg & 0x20
)
"""The first two bytes of zlib data (RFC 1950, 2.2): deflate with any window size and without a dictionary."""
_GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT, _GZIP_CRC = 4, 8, 16, 2
_STORED, _DEFLATED, _BZIP2ED, _LZMAED = 0, 8, 12, 14
_TEXT = bytes(range(32, 127)) + b"\t\r\n"


class _Stream(Protocol):
    """A decompressor of one stream, which works in steps."""

    @property
    def ended(self) -> bool: ...
    def feed(self, data: bytes, most: int) -> bytes: ...
    def more(self, most: int) -> bytes: ...


class _Inflate:
    """A decompressor of raw deflate (RFC 1951)."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(-zlib.MAX_WBITS)
        self._left = b""

    @property
    def ended(self) -> bool:
        return self._inner.eof

    def feed(self, data: bytes, most: int) -> bytes:
        before = self._inner.copy()
        try:
            piece = self._inner.decompress(data, most)
        except zlib.error:
            raise _BrokenError(_output_before_error(before, data)) from None
        self._left = self._inner.unconsumed_tail
        return piece

    def more(self, most: int) -> bytes:
        return self.feed(self._left, most) if self._left else b""


class _Buffered:
    """A decompressor of bzip2 or xz. The object `inner` buffers unused input."""

    def __init__(self, inner: Any, errors: tuple[type[Exception], ...]) -> None:
        self._inner = inner
        self._errors = errors

    @property
    def ended(self) -> bool:
        return bool(self._inner.eof)

    def feed(self, data: bytes, most: int) -> bytes:
        try:
            return self._inner.decompress(data, most)  # type: ignore[no-any-return]
        except self._errors:
            raise _BrokenError(b"") from None

    def more(self, most: int) -> bytes:
        return b"" if self.ended or self._inner.needs_input else self.feed(b"", most)


class _BrokenError(Exception):
    """A stream is corrupt; `content` is its output before the error."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.content = content


class _StreamStart(NamedTuple):
    """The start of compressed bytes, and their decompressor."""

    at: int
    stream: Callable[[], _Stream]


@lru_cache(maxsize=1)
def _magic_expression() -> Any:
    """Compile the first bytes of all recognised formats into one expression."""
    pairs: dict[int, list[int]] = {}
    for cmf, flg in _ZLIB:
        pairs.setdefault(cmf, []).append(flg)
    zlibs = (b"\\x%02x[%b]" % (cmf, b"".join(b"\\x%02x" % flg for flg in flgs)) for cmf, flgs in pairs.items())
    exact = (b"".join(b"\\x%02x" % byte for byte in magic) for magic in (GZIP, _ZIP, _XZ, *_CLOSED))
    return compile_linear(b"|".join((*exact, rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", *zlibs)))


def find_archives(data: bytes, budget: DecodeBudget) -> Iterator[tuple[int, bytes]]:
    """Yield `(start, content)` for all compressed content in `data`, as far as the budget allows."""
    if not data or data.isascii():
        return  # compressed data is never all ASCII, unless it was crafted to be
    if data[:_FIRST_BYTES].translate(None, _TEXT):
        yield from _decompress(data, 0, _StreamStart(0, _Inflate), budget)
    position = 0
    while (found := _magic_expression().search(data, position)) is not None:
        start, position = found.start(), found.start() + 2
        stream_start = _find_stream_start(data, start)
        if stream_start is None:
            budget.exceeded = True
        else:
            yield from _decompress(data, start, stream_start, budget)
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
    while (found := _magic_expression().search(data, position)) is not None:
        at: int = found.start()
        if data[at : at + 2] not in _ZLIB or _may_start(data, at + 2):
            return at
        position = at + 2
    return -1


def _may_start(data: bytes, at: int) -> bool:
    """Return whether the bytes from `at` on may be the beginning of a deflate stream."""
    try:
        _Inflate().feed(data[at : at + 4 * _FIRST_BYTES], _STEP_OUT_BYTES)
    except _BrokenError as broken:
        return len(broken.content) >= _LEAST_STREAM or re.search(_WORDS, broken.content) is not None
    return True


def _find_stream_start(data: bytes, at: int) -> _StreamStart | None:
    """Return the start of the compressed bytes of the archive at `at`, or None if it cannot be decompressed."""
    head = data[at : at + 6]
    if head[:2] in _ZLIB:
        return _StreamStart(at + 2, _Inflate)
    if head[:3] == GZIP:
        return _StreamStart(_find_gzip_body(data, at), _Inflate)
    if head[:3] == _BZIP2:
        return _StreamStart(at, _open_bzip2)
    if head == _XZ:
        return _StreamStart(at, _open_xz)
    return _find_zip_member(data, at) if head[:4] == _ZIP else None


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
    streams: dict[int, Callable[[], _Stream]] = {_STORED: _Stored, _DEFLATED: _Inflate, _BZIP2ED: _open_bzip2}
    return None if flags & 1 or method not in streams else _StreamStart(body, streams[method])


class _Stored:
    """A decompressor of an uncompressed member. It has no output: the member is searched with the text around it."""

    ended = True

    def feed(self, data: bytes, most: int) -> bytes:
        return b""

    def more(self, most: int) -> bytes:
        return b""


def _decompress(
    data: bytes, start: int, stream_start: _StreamStart, budget: DecodeBudget
) -> Iterator[tuple[int, bytes]]:
    budget.check()
    if not budget.charge(_ATTEMPT_BYTES):
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
    except _BrokenError as broken:
        pieces.append(broken.content)
        budget.charge(len(broken.content))
    content = b"".join(pieces)
    if len(content) >= _LEAST_STREAM or re.search(_WORDS, content) is not None:
        yield start, content


def _decompress_pieces(stream: _Stream, data: bytes, position: int, budget: DecodeBudget) -> Iterator[bytes]:
    """Yield the output of a stream. Both input and output are charged to the budget."""
    size = _FIRST_BYTES
    while position < len(data) and not stream.ended:
        piece = stream.feed(data[position : position + size], _STEP_OUT_BYTES)
        if not budget.charge(size // 4):
            return
        position, size = position + size, _STEP_BYTES
        while piece:
            if not budget.charge(len(piece)):
                return
            yield piece
            budget.check()
            piece = stream.more(_STEP_OUT_BYTES)
        budget.check()


def _output_before_error(stream: Any, data: bytes) -> bytes:
    """Return a stream's output before its error. Feed the input byte by byte, since a failing step has no output."""
    content = bytearray()
    try:
        for at in range(len(data)):
            content += stream.decompress(data[at : at + 1], _STEP_OUT_BYTES)
    except zlib.error:
        pass
    return bytes(content)


def _open_bzip2() -> _Stream:
    import bz2  # bz2 and lzma take a millisecond to import, and most processes need neither

    return _Buffered(bz2.BZ2Decompressor(), (OSError,))


def _open_xz() -> _Stream:
    import lzma

    decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
    return _Buffered(decompressor, (lzma.LZMAError, MemoryError))
