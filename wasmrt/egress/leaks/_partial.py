"""Find partial matches of a call's secrets: a response that returns a secret in halves never holds the whole.

A part counts from eight characters and a third of the secret on. That is too long to occur by chance, but for words: a
secret that contains a word does not make the word a secret.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wasmrt.egress.leaks._budgets import Check

_LEAST = 8
_PARTS = 3
_MAX_MISSES = 256
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class PartialPattern(NamedTuple):
    """One encoding of a secret, to be found from `least` characters on."""

    name: str
    text: bytes
    least: int
    may_be_word: bool
    cores: tuple[tuple[int, bytes], ...]
    """Parts, and where they begin, one of which every part of `least` characters contains."""


def partial_patterns(secrets: Iterable[tuple[str, str]]) -> tuple[PartialPattern, ...]:
    """Write each secret as it is, in hex, and in base64 at its three offsets."""
    found: dict[bytes, PartialPattern] = {}
    for name, value in secrets:
        raw = value.encode("utf-8", "surrogatepass")
        digits = raw.hex().encode()
        encodings = [digits, digits.upper()]
        for offset in range(3):
            encoded = b2a_base64(bytes(offset) + raw, newline=False)[4 if offset else 0 :].rstrip(b"=")
            encodings += (encoded, encoded.translate(_URL_SAFE))
        for text in (raw, *encodings):
            least = max(_LEAST, -(-len(text) // _PARTS))
            if len(text) > least and text not in found:
                # A secret of one kind of character has no other parts: like any other, it is found by them.
                may_be_word = text is raw and not _is_word(raw.translate(None, b"-_. /:"))
                found[text] = PartialPattern(name, text, least, may_be_word, _cores(text, least))
    return tuple(found.values())


def find_partial(data: bytes, patterns: Iterable[PartialPattern], check: Check) -> Iterator[tuple[str, int, int]]:
    """Yield `(name, start, end)` of every partial match; `check` is called at every candidate."""
    for pattern in patterns:
        for begin, core in pattern.cores:
            yield from _around(data, pattern, begin, core, check)


def _around(
    data: bytes, pattern: PartialPattern, begin: int, core: bytes, check: Check
) -> Iterator[tuple[str, int, int]]:
    """Yield the partial matches around every occurrence of a core."""
    at, misses = data.find(core), 0
    while at >= 0:
        check()
        start, end = _extended(data, at, at + len(core), pattern.text, begin)
        if _counts(pattern, data[start:end]):
            yield pattern.name, start, end
            at = data.find(core, end)
        elif (misses := misses + 1) > _MAX_MISSES:
            yield from _by_windows(data, max(0, at - pattern.least), pattern, begin, core, check)
            return
        else:
            at = data.find(core, at + 1)


def _by_windows(
    data: bytes, position: int, pattern: PartialPattern, begin: int, core: bytes, check: Check
) -> Iterator[tuple[str, int, int]]:
    """Yield the partial matches from `position` on in a text full of one core: look for all that may surround it."""
    low, high = max(0, begin + len(core) - pattern.least), min(begin, len(pattern.text) - pattern.least)
    for first in range(low, high + 1):
        window = pattern.text[first : first + pattern.least]
        place = data.find(window, position) if _counts(pattern, window) else -1
        while place >= 0:
            check()
            start, end = _extended(data, place, place + len(window), pattern.text, first)
            if _counts(pattern, data[start:end]):
                yield pattern.name, start, end
            place = data.find(window, end)


def _counts(pattern: PartialPattern, part: bytes) -> bool:
    return len(part) >= pattern.least and not (pattern.may_be_word and _is_word(part))


def _cores(text: bytes, least: int) -> tuple[tuple[int, bytes], ...]:
    size = least * 2 // 3
    return tuple((at, text[at : at + size]) for at in range(0, len(text) - size + 1, least - size + 1))


def _extended(data: bytes, start: int, end: int, text: bytes, begin: int) -> tuple[int, int]:
    """Extend a core's place as far as the text around it is that of the secret."""
    stop = begin + end - start
    while start > 0 and begin > 0 and data[start - 1] == text[begin - 1]:
        start, begin = start - 1, begin - 1
    while end < len(data) and stop < len(text) and data[end] == text[stop]:
        end, stop = end + 1, stop + 1
    return start, end


def _is_word(part: bytes) -> bool:
    """Tell whether a part is one word or one number, with or without separators around it."""
    bare = part.strip(b"-_. /:")
    return bare.isdigit() or (bare.isalpha() and (bare.islower() or bare.isupper() or bare.istitle()))
