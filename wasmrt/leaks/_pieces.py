"""Find pieces of a call's secrets: what an answer brings back by halves is not seen by looking for the whole.

A piece counts from eight characters and a third of the secret on. That is too long to be met by chance, but for words:
a secret that holds one does not make it a secret wherever it stands.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from wasmrt.leaks._engine import Check

_LEAST = 8
_PARTS = 3
_MAX_MISSES = 256


class Spelling(NamedTuple):
    """A way to write a secret, to be found from `least` characters on."""

    name: str
    text: bytes
    least: int
    may_be_word: bool
    cores: tuple[tuple[int, bytes], ...]
    """Parts, and where they begin, of which every piece holds one whole."""


def spellings(secrets: Iterable[tuple[str, str]]) -> tuple[Spelling, ...]:
    """Each secret as it is, in hex, and in base64 at its three offsets."""
    found: dict[bytes, Spelling] = {}
    for name, value in secrets:
        raw = value.encode("utf-8", "surrogatepass")
        written = [(raw, True), (raw.hex().encode(), False), (raw.hex().upper().encode(), False)]
        for offset in range(3):
            packed = base64.b64encode(bytes(offset) + raw)[4 if offset else 0 :].rstrip(b"=")
            written += ((packed, False), (packed.translate(_URL_SAFE), False))
        for text, may_be_word in written:
            least = max(_LEAST, -(-len(text) // _PARTS))
            if len(text) > least:
                found.setdefault(text, Spelling(name, text, least, may_be_word, _cores(text, least)))
    return tuple(found.values())


def find_pieces(data: bytes, known: Iterable[Spelling], check: Check) -> Iterator[tuple[str, int, int]]:
    """Yield `(name, start, end)` of every piece; `check` is called at every candidate."""
    for spelling in known:
        for begin, core in spelling.cores:
            yield from _around(data, spelling, begin, core, check)


def _around(data: bytes, spelling: Spelling, begin: int, core: bytes, check: Check) -> Iterator[tuple[str, int, int]]:
    at, misses = data.find(core), 0
    while at >= 0:
        check()
        start, end = _extended(data, at, at + len(core), spelling.text, begin)
        if _counts(spelling, data[start:end]):
            yield spelling.name, start, end
            at = data.find(core, end)
        elif (misses := misses + 1) > _MAX_MISSES:
            break
        else:
            at = data.find(core, at + 1)
    if at < 0:
        return
    # A text made of this core and nothing around it: look for all that a piece may hold around it instead.
    low, high = max(0, begin + len(core) - spelling.least), min(begin, len(spelling.text) - spelling.least)
    for first in range(low, high + 1):
        window = spelling.text[first : first + spelling.least]
        place = data.find(window, max(0, at - spelling.least)) if _counts(spelling, window) else -1
        while place >= 0:
            check()
            start, end = _extended(data, place, place + len(window), spelling.text, first)
            if _counts(spelling, data[start:end]):
                yield spelling.name, start, end
            place = data.find(window, end)


def _counts(spelling: Spelling, piece: bytes) -> bool:
    return len(piece) >= spelling.least and not (spelling.may_be_word and _is_word(piece))


def _cores(text: bytes, least: int) -> tuple[tuple[int, bytes], ...]:
    size = least * 2 // 3
    return tuple((at, text[at : at + size]) for at in range(0, len(text) - size + 1, least - size + 1))


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def _extended(data: bytes, start: int, end: int, text: bytes, begin: int) -> tuple[int, int]:
    """As far as the text around a core is that of the secret."""
    stop = begin + end - start
    while start > 0 and begin > 0 and data[start - 1] == text[begin - 1]:
        start, begin = start - 1, begin - 1
    while end < len(data) and stop < len(text) and data[end] == text[stop]:
        end, stop = end + 1, stop + 1
    return start, end


def _is_word(piece: bytes) -> bool:
    """Whether a piece is one word or one number, with or without what joins it to others."""
    bare = piece.strip(b"-_. /:")
    return bare.isdigit() or (bare.isalpha() and (bare.islower() or bare.isupper() or bare.istitle()))
