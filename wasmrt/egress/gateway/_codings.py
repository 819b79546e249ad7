"""Decode the content codings of responses: gzip, and Brotli and zstd if their libraries are installed.

The extra `wasmrt[codings]` installs them; zstd is in Python's standard library from 3.14 on.
"""

from __future__ import annotations

import importlib
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from wasmrt.core.limits import KIB, MAX_CONTENT_CODINGS, MAX_CONTENT_MEMBERS, MIB

_STEP_BYTES = 16 * KIB
"""Bytes given to a decoder in one step. zlib copies the rest of a step after each member, so small steps are cheap."""
_STEP_OUT_BYTES = MIB
_ZSTD_WINDOW_LOG = 23
"""The largest window of the coding zstd, 8 MiB (RFC 9659)."""
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


class CodingError(ValueError):
    """The body is not valid for the coding in its Content-Encoding header. Internal to this package."""


class Decoder(ABC):
    """A decoder that works in steps of limited output. Before every step, it calls `check`, which may raise."""

    name: str
    _invalid: type[Exception]
    """The exception with which the decoding library reports invalid data."""

    def __init__(self, check: Callable[[], object]) -> None:
        self._check = check
        self._fresh = True
        self._members = 1
        self._inner = self._new()

    def feed(self, data: bytes, limit: int) -> bytes:
        """Decode `data`. If the output exceeds `limit` bytes, decoding stops, and the result is longer than `limit`.

        Raises:
            CodingError: the data is invalid, or has more than `MAX_CONTENT_MEMBERS` members.
        """
        pieces: list[bytes] = []
        room = limit + 1
        for low in range(0, len(data), _STEP_BYTES):
            step = data[low : low + _STEP_BYTES]
            while (step or self._has_more()) and room > 0:
                piece, step = self._next(step, min(room, _STEP_OUT_BYTES))
                pieces.append(piece)
                room -= len(piece)
        return b"".join(pieces)

    def finish(self) -> None:
        """Raise `CodingError` if the body is incomplete."""
        if not (self._fresh or self._has_ended()):
            raise CodingError(f"the {self.name} body ended too early")

    def _next(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        self._check()
        if self._has_ended():
            self._inner, self._fresh = self._new(), True
            self._members += 1
            if self._members > MAX_CONTENT_MEMBERS:
                raise CodingError(f"the body has more than {MAX_CONTENT_MEMBERS} {self.name} members")
        try:
            answer = self._step(data, room)
        except self._invalid:
            raise CodingError(f"the body is not valid {self.name}") from None
        self._fresh = False
        return answer

    @abstractmethod
    def _new(self) -> Any:
        """Create the library's decoder for one member."""

    @abstractmethod
    def _step(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        """Decode until the output has about `room` bytes; return the output and the data that was not decoded."""

    def _has_ended(self) -> bool:
        return bool(self._inner.eof)

    def _has_more(self) -> bool:
        """Return whether the library still holds data whose output did not fit into the last step's room."""
        return False


class GzipDecoder(Decoder):
    """Decodes gzip (RFC 1952) of one or several members."""

    name = "gzip"
    _invalid = zlib.error

    def _new(self) -> Any:
        return zlib.decompressobj(16 + zlib.MAX_WBITS)

    def _step(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        piece = self._inner.decompress(data, room)
        return piece, self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail


class BrotliDecoder(Decoder):
    """Decodes Brotli (RFC 7932), which has no members: data after its end is an error."""

    name = "br"

    def _new(self) -> Any:
        if self._members > 1:
            raise CodingError("the br body has data after its end")
        brotli = importlib.import_module("brotli")
        self._invalid = brotli.error
        return brotli.Decompressor()

    def _step(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        return self._inner.process(data, output_buffer_limit=room), b""

    def _has_ended(self) -> bool:
        return bool(self._inner.is_finished())

    def _has_more(self) -> bool:
        return not (self._inner.is_finished() or self._inner.can_accept_more_data())


class ZstdDecoder(Decoder):
    """Decodes zstd (RFC 8878) of one or several frames."""

    name = "zstd"

    def _new(self) -> Any:
        zstd = importlib.import_module(_ZSTD)
        self._invalid = zstd.ZstdError
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})

    def _step(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        piece = self._inner.decompress(data, room)
        return piece, self._inner.unused_data if self._inner.eof else b""

    def _has_more(self) -> bool:
        return not (self._inner.eof or self._inner.needs_input)


def _is_installed(module: str) -> bool:
    parent = module.rpartition(".")[0]
    return (not parent or find_spec(parent) is not None) and find_spec(module) is not None


_DECODERS: dict[str, type[Decoder]] = {"gzip": GzipDecoder, "x-gzip": GzipDecoder}  # RFC 9110 8.4.1.3: two names
if _is_installed("brotli"):
    _DECODERS["br"] = BrotliDecoder
if _is_installed(_ZSTD):
    _DECODERS["zstd"] = ZstdDecoder
ACCEPT_ENCODING = ", ".join(name for name in _DECODERS if name != "x-gzip")


def make_decoders(codings: list[str], check: Callable[[], object]) -> list[Decoder]:
    """Return one decoder for each coding in the values of Content-Encoding.

    SECURITY: a body in any other coding is refused, because it could not be searched for secrets.

    Raises:
        CodingError: a coding was not requested, or there are too many codings.
    """
    names = [name.strip().lower() for value in codings for name in value.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if len(names) > MAX_CONTENT_CODINGS or any(name not in _DECODERS for name in names):
        raise CodingError(f"the body has a content coding other than {ACCEPT_ENCODING}, or more than one")
    return [_DECODERS[name](check) for name in names]
