"""A large text goes through a sieve before it is searched for a call's secrets: a WebAssembly kernel, `sieve.wat`.

It is four times as fast as one pass of RE2 over the secrets in every encoding, and what it lets through is searched as
ever, so that it changes nothing of what is found. Whoever makes a `LeakDetector` lends it the means to run a kernel;
this room does not know how that is done.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple, Protocol

from wasmrt.errors import WasmrtError
from wasmrt.limits import KIB, MIB

_LEAST_BYTES = 32 * KIB
"""A smaller text is searched before a kernel is ready for it."""
_PAID_BYTES = 2 * MIB
"""After so many bytes of larger texts it is worth the 10 ms that it takes to have a kernel."""
_IDLE_KERNELS = 4

# As `sieve.wat` has them.
_PIECE_BYTES = 256 * KIB
_BITS_AT, _TRIPLES_AT, _TEXT_AT = 0x0, 0x8000, 0x14000
_ZEROS = bytes(128)
_LENGTHS = {5: 16, 8: 32}
_WORD_BITS = 1 << 18
_FACTOR, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
_HELD, _PACKED = 1, 2


class Kernel(Protocol):
    """An instance of a WebAssembly module, for one thread at a time. See `wasmrt.guest.engine.make_kernel`."""

    def write(self, at: int, data: bytes | memoryview, /) -> None: ...
    def call(self, name: str, /, *numbers: int) -> int: ...


KernelMaker = Callable[[str], Kernel]
"""Makes an instance of a module that is given as text."""


class Sifted(NamedTuple):
    """What may be left in a text; False is certain."""

    words: bool
    packed: bool


class WordTable:
    """What a sieve looks for, as it reads it."""

    __slots__ = ("bits", "triples")

    def __init__(self, words: Iterable[bytes]) -> None:
        triples, bits = bytearray(1 << 15), bytearray(_WORD_BITS // 8)
        for word in words:
            codes = [(byte & 31,) for byte in word] + [tuple(range(32))]
            for start in range(4):
                for one, two, three in product(*codes[start : start + 3]):
                    triples[one | two << 5 | three << 10] |= 1 << start | _LENGTHS[len(word)]
            spread = int.from_bytes(word, "little") * _FACTOR & _MASK
            for number in (spread >> 46, spread >> 28 & _WORD_BITS - 1):
                bits[number >> 3] |= 1 << (number & 7)
        self.triples = bytes(triples)
        self.bits = bytes(bits)


def word_of(text: bytes) -> bytes | None:
    """Choose what to look for of a text in normal form: the piece least likely met by chance; None of a short one."""
    length = next((length for length in (8, 5) if length <= len(text)), None)
    if length is None:
        return None
    starts = range(len(text) - length + 1)
    return max((text[at : at + length] for at in starts), key=lambda piece: len(set(piece)))


class Sieve:
    """Kernels for as many threads as want one at once. Safe to share; a forked process makes its own."""

    __slots__ = ("_idle", "_make", "_process", "_seen_bytes")

    def __init__(self, make: KernelMaker) -> None:
        self._make: KernelMaker | None = make
        self._idle: list[tuple[Kernel, WordTable | None]] = []
        self._process = os.getpid()
        self._seen_bytes = 0

    def takes(self, data: bytes) -> bool:
        """Whether it is worth to sift a text."""
        if len(data) < _LEAST_BYTES or self._make is None:
            return False
        self._seen_bytes += len(data)
        return self._seen_bytes > _PAID_BYTES

    def sift(self, table: WordTable, data: bytes) -> Sifted:
        """Say whether a text may hold a word in its normal form, and if not, whether it may hold anything packed."""
        taken = self._taken()
        if taken is None:
            return Sifted(words=True, packed=True)
        kernel, loaded = taken
        if loaded is not table:
            kernel.write(_BITS_AT, table.bits)
            kernel.write(_TRIPLES_AT, table.triples)
        answer, packed, text = 0, False, memoryview(data)
        for low in range(0, len(text), _PIECE_BYTES):
            piece = text[low : low + _PIECE_BYTES]
            kernel.write(_TEXT_AT, piece)
            if len(piece) < _PIECE_BYTES:
                kernel.write(_TEXT_AT + len(piece), _ZEROS)
            answer = kernel.call("values", len(piece), int(low == 0))
            if answer == _HELD:
                break
            packed = packed or answer == _PACKED
        if len(self._idle) < _IDLE_KERNELS:
            self._idle.append((kernel, table))
        return Sifted(answer == _HELD, packed)

    def _taken(self) -> tuple[Kernel, WordTable | None] | None:
        if self._process != os.getpid():
            self._idle, self._process = [], os.getpid()
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        make = self._make
        if make is None:
            return None
        try:
            return make(_text()), None
        except WasmrtError:  # a process that may not have so much address space goes on without
            self._make = None
            return None


@lru_cache(maxsize=8)
def sieve_for(make: KernelMaker) -> Sieve:
    """One for the process, so that detectors share its kernels."""
    return Sieve(make)


@lru_cache(maxsize=1)
def _text() -> str:
    return (Path(__file__).parent / "sieve.wat").read_text("ascii")
