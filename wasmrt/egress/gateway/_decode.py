"""Content codings, undone a piece at a time: a bomb is noticed at the cap, not after it."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from wasmrt.core.limits import KIB, MAX_CONTENT_CODINGS, MAX_GZIP_MEMBERS, MIB

ACCEPT_ENCODING = "gzip"


class CodingError(ValueError):
    """The body is not in the coding that its Content-Encoding names. Never leaves this package."""


_STEP_BYTES = 16 * KIB
"""Bytes that are decoded at once: what a member leaves of them is copied, so that many members stay cheap."""
_STEP_OUT_BYTES = MIB


class GzipDecoder:
    """Decoder of RFC 1952, several members allowed; `check` is called at every step, and ends it by raising."""

    def __init__(self, check: Callable[[], object]) -> None:
        self._check = check
        self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._fresh = True
        self._members = 1

    def feed(self, data: bytes, limit: int) -> bytes:
        """Return the decoded `data`, but at most `limit` + 1 bytes: one more says that there are more.

        Raises:
            CodingError: it is not gzip, or has more than `MAX_GZIP_MEMBERS` members.
        """
        pieces: list[bytes] = []
        room = limit + 1
        for low in range(0, len(data), _STEP_BYTES):
            step = data[low : low + _STEP_BYTES]
            while step and room > 0:
                piece, step = self._step(step, min(room, _STEP_OUT_BYTES))
                pieces.append(piece)
                room -= len(piece)
        return b"".join(pieces)

    def _step(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        self._check()
        if self._inner.eof:
            self._inner, self._fresh = zlib.decompressobj(16 + zlib.MAX_WBITS), True
            self._members += 1
            if self._members > MAX_GZIP_MEMBERS:
                raise CodingError(f"the body has more than {MAX_GZIP_MEMBERS} members of gzip")
        try:
            piece = self._inner.decompress(data, room)
        except zlib.error:
            raise CodingError("the body is not valid gzip") from None
        self._fresh = False
        return piece, self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail

    def finish(self) -> None:
        """Raise `CodingError` where the body ended too early."""
        if not (self._inner.eof or self._fresh):
            raise CodingError("the gzip body ended too early")


_GZIP = ("gzip", "x-gzip")  # RFC 9110 8.4.1.3: two names of one coding


def decoders_for(codings: list[str], check: Callable[[], object]) -> list[GzipDecoder]:
    """Return the decoders for the values of Content-Encoding, in the order of their use.

    Raises:
        CodingError: a coding that was not asked for. SECURITY: such a body could not be searched for secrets, so it
            is not passed on undecoded.
    """
    names = [name.strip().lower() for value in codings for name in value.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if len(names) > MAX_CONTENT_CODINGS or any(name not in _GZIP for name in names):
        raise CodingError("the body has a content coding other than gzip, or more than one")
    return [GzipDecoder(check) for _ in names]
