"""Words of a text that are packed: base64, base32, hexadecimal, and numbers that stand for characters."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator

_WORDS = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,6}")
_LINES = re.compile(r"(?:[A-Za-z0-9+/]{60,76}\r?\n)+[A-Za-z0-9+/]{1,76}={0,2}")
_GROUPS = re.compile(
    r"\b(?:0[xX])?[0-9A-Fa-f]{2,3}(?:(?:[:-]|[ ,;]{1,2})(?:0[xX])?[0-9A-Fa-f]{2,3}){5,2000}(?![0-9A-Fa-f])"
)
_BETWEEN = re.compile(r"0[xX]|[^0-9A-Fa-f]")
_APART = re.compile(r"[:, ;-]+")
_BITS = re.compile(r"(?<!\d)[01]{8}(?: ?[01]{8}){5,2000}(?!\d)")


def unpacked(text: str) -> Iterator[str]:
    """Yield what the packed words of a text say (RFC 4648, and codes of ASCII), where that is text."""
    for pattern, ways in _WAYS:
        if pattern is _LINES and "\n" not in text:
            continue
        for found in pattern.finditer(text):
            for way in ways:
                said = _said(way, found[0])
                if said is not None and said.isprintable():
                    yield said
                    break


def _said(way: Callable[[str], bytes], word: str) -> str | None:
    try:
        return way(word).decode()
    except ValueError:
        return None


def _from_hex(word: str) -> bytes:
    return bytes.fromhex(word.removeprefix("0x"))


def _from_pairs(word: str) -> bytes:
    return bytes.fromhex(_BETWEEN.sub("", word))


def _from_base64(word: str) -> bytes:
    bare = "".join(word.split()).rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(bare + "=" * (-len(bare) % 4))


def _from_base32(word: str) -> bytes:
    bare = word.rstrip("=")
    return base64.b32decode(bare + "=" * (-len(bare) % 8))


def _from_codes(word: str) -> bytes:
    return bytes(map(int, _APART.split(word)))


def _from_bits(word: str) -> bytes:
    bits = word.replace(" ", "")
    return bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8))


_WAYS: tuple[tuple[re.Pattern[str], tuple[Callable[[str], bytes], ...]], ...] = (
    (_WORDS, (_from_hex, _from_base64, _from_base32)),
    (_LINES, (_from_base64,)),
    (_GROUPS, (_from_codes, _from_pairs)),
    (_BITS, (_from_bits,)),
)
