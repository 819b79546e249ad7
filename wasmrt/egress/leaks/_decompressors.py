"""Decompressors of one stream, which work in steps and return the output before an error."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from wasmrt.core.limits import KIB, MIB, MIN_SECRET_CHARS

STEP_BYTES = 64 * KIB
STEP_OUT_BYTES = MIB
"""Maximum numbers of input bytes and output bytes between two deadline checks."""
LZMA_MEMORY_BYTES = 64 * MIB


class Stream(Protocol):
    """A decompressor of one stream, which works in steps."""

    @property
    def ended(self) -> bool: ...
    def feed(self, data: bytes, most: int) -> bytes: ...
    def more(self, most: int) -> bytes: ...


class Inflate:
    """A decompressor of raw deflate (RFC 1951)."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(-zlib.MAX_WBITS)
        self._started = False
        self._left = b""

    @property
    def ended(self) -> bool:
        return self._inner.eof

    @property
    def rest(self) -> bytes:
        """The bytes after the end of the stream."""
        return self._inner.unused_data

    def feed(self, data: bytes, most: int) -> bytes:
        before = self._inner.copy() if self._started else None
        try:
            piece = self._inner.decompress(data, most)
        except zlib.error:
            raise BrokenError(_output_before_error(before, data, most)) from None
        self._started = True
        self._left = self._inner.unconsumed_tail
        return piece

    def more(self, most: int) -> bytes:
        return self.feed(self._left, most) if self._left else b""


class Buffered:
    """A decompressor of bzip2, xz or LZMA. The object that `opener` returns buffers unused input."""

    def __init__(self, opener: Callable[[], Any], errors: tuple[type[Exception], ...]) -> None:
        self._opener, self._errors = opener, errors
        self._inner = opener()
        self._fed: list[bytes] = []
        self._size = 0

    @property
    def ended(self) -> bool:
        return bool(self._inner.eof)

    def feed(self, data: bytes, most: int) -> bytes:
        self._fed.append(data)
        try:
            piece: bytes = self._inner.decompress(data, min(most, STEP_BYTES))
        except self._errors:
            raise BrokenError(self._output_before_error()) from None
        self._size += len(piece)
        return piece

    def more(self, most: int) -> bytes:
        return b"" if self.ended or self._inner.needs_input else self.feed(b"", most)

    def _output_before_error(self) -> bytes:
        """Decompress everything again, and read the output of the failing step byte by byte."""
        again, content, data = self._opener(), bytearray(), b"".join(self._fed)
        try:
            while len(content) < self._size + STEP_BYTES and (not content or not again.needs_input):
                content += again.decompress(data, max(1, self._size - len(content)))
                data = b""
        except self._errors:
            pass
        return bytes(content[self._size :])


class BrokenError(Exception):
    """A stream is corrupt; `content` is its output before the error."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.content = content


class Stored:
    """A reader of an uncompressed member of a known size."""

    def __init__(self, size: int) -> None:
        self._left = size

    @property
    def ended(self) -> bool:
        return self._left == 0

    def feed(self, data: bytes, most: int) -> bytes:
        piece = data[: min(most, self._left)]
        self._left -= len(piece)
        return piece

    def more(self, most: int) -> bytes:
        return b""


def _output_before_error(stream: Any, data: bytes, most: int) -> bytes:
    """Return the output of a stream before the error that is caused by `data`.

    A failing step returns no output, so search for the most bytes of `data` that can be decompressed. `stream` is None
    at the start of a stream. If it fails before a secret's length of output, return no output.
    """
    if stream is None:
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            stream.copy().decompress(data, MIN_SECRET_CHARS)
        except zlib.error:
            return b""
    low, high, content = 0, len(data), b""
    while high - low > 1:
        middle = (low + high) // 2
        try:
            content, low = stream.copy().decompress(data[:middle], most), middle
        except zlib.error:
            high = middle
    return content


def open_bzip2() -> Stream:
    import bz2  # bz2 and lzma take a millisecond to import, and most processes need neither

    return Buffered(bz2.BZ2Decompressor, (OSError,))


def open_xz() -> Stream:
    import lzma

    return Buffered(partial(lzma.LZMADecompressor, memlimit=LZMA_MEMORY_BYTES), (lzma.LZMAError, MemoryError))


def open_lzma(properties: int, window: int) -> Stream:
    """Open raw LZMA. `properties` is the properties byte of its header: the parameters lc, lp and pb in one number."""
    import lzma

    bits = {"lc": properties % 9, "lp": properties // 9 % 5, "pb": properties // 45}
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": max(4096, window), **bits}]
    try:
        return Buffered(partial(lzma.LZMADecompressor, lzma.FORMAT_RAW, filters=filters), (lzma.LZMAError, MemoryError))
    except (lzma.LZMAError, ValueError):
        return Stored(0)
