"""Content codings, undone a piece at a time: a bomb is noticed at the cap, not after it."""

from __future__ import annotations

import zlib

from wasmrt.limits import MAX_CONTENT_CODINGS

ACCEPT_ENCODING = "gzip"


class CodingError(ValueError):
    """The body is not in the coding that its Content-Encoding names. Never leaves this package."""


class GzipDecoder:
    """Decoder of RFC 1952, several members allowed."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._fresh = True

    def feed(self, data: bytes, limit: int) -> bytes:
        """Return the decoded `data`, but at most `limit` + 1 bytes: one more says that there are more."""
        pieces: list[bytes] = []
        room = limit + 1
        while data and room > 0:
            if self._inner.eof:
                self._inner, self._fresh = zlib.decompressobj(16 + zlib.MAX_WBITS), True
            try:
                piece = self._inner.decompress(data, room)
            except zlib.error:
                raise CodingError("the body is not valid gzip") from None
            self._fresh = False
            pieces.append(piece)
            room -= len(piece)
            data = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
        return b"".join(pieces)

    def finish(self) -> None:
        """Raise `CodingError` where the body ended too early."""
        if not (self._inner.eof or self._fresh):
            raise CodingError("the gzip body ended too early")


_GZIP = ("gzip", "x-gzip")  # RFC 9110 8.4.1.3: two names of one coding


def decoders_for(codings: list[str]) -> list[GzipDecoder]:
    """Return the decoders for the values of Content-Encoding, in the order of their use.

    Raises:
        CodingError: a coding that was not asked for. SECURITY: such a body could not be searched for secrets, so it
            is not passed on undecoded.
    """
    names = [name.strip().lower() for value in codings for name in value.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if len(names) > MAX_CONTENT_CODINGS or any(name not in _GZIP for name in names):
        raise CodingError("the body has a content coding other than gzip")
    return [GzipDecoder() for _ in names]
