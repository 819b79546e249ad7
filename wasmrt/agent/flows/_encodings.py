"""Replace look-alike characters, and decode words in base64, base32, hexadecimal or character codes."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable, Iterator

from wasmrt.core.lookalikes import LOOKALIKES

_ALIKE = {
    ".": "。．｡․",
    "@": "＠﹫",
    "-": "‐‑‒–—―−﹣",
    "/": "⁄∕⧸",
}
"""Other characters than letters, with those that look like them."""
_UNLIKE = {"Η": "h", "Ν": "n", "Υ": "y", "В": "b", "Н": "h"}
"""Capital letters that look like a Latin letter, but whose lowercase forms look like a different one."""
_SETS = (0x1F150, 0x1F170, 0x1F1E6)
"""The first letters of three alphabets (in circles, in squares, for flags) that Unicode does not decompose."""
_FILLERS = (0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0)
"""Invisible letters."""
_INVISIBLE = (
    0xAD,
    0x61C,
    *range(0x180B, 0x1810),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
)
"""Characters without a width, and marks of the direction."""
_SELECTORS = (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
"""Variation selectors."""
CAPITALS: dict[int, str] = {ord(char): plain for char, plain in _UNLIKE.items()}
CAPITALS |= {first + place: chr(ord("a") + place) for first in _SETS for place in range(26)}
_MARKS = (*range(0x300, 0x370), *range(0x1AB0, 0x1B00), *range(0x1DC0, 0x1E00), *range(0x20D0, 0x2100))
"""Combining marks, which remain after Unicode decomposes a letter."""
CONFUSABLES: dict[int, str | None] = dict.fromkeys((*_MARKS, *_FILLERS, *_INVISIBLE, *_SELECTORS))
CONFUSABLES |= LOOKALIKES | {ord(char): plain for plain, alike in _ALIKE.items() for char in alike}


_WORDS = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,6}")
_LINES = re.compile(r"(?:[A-Za-z0-9+/]{60,76}\r?\n)+[A-Za-z0-9+/]{1,76}={0,2}")
_GROUPS = re.compile(
    r"[0-9A-Fa-f](?<!\w[0-9A-Fa-f])(?:(?<=0)[xX][0-9A-Fa-f]{2,3}|[0-9A-Fa-f]{1,2})"
    r"(?:(?:[:-]|[ ,;]{1,2})(?:0[xX])?[0-9A-Fa-f]{2,3}){5,2000}(?![0-9A-Fa-f])"
)
_BETWEEN = re.compile(r"0[xX]|[^0-9A-Fa-f]")
_APART = re.compile(r"[:, ;-]+")
_BITS = re.compile(r"[01](?<!\d[01])[01]{7}(?: ?[01]{8}){5,2000}(?!\d)")

_BRAILLE_LETTERS = "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵"
_BRAILLE = str.maketrans(_BRAILLE_LETTERS + "⠲⠤⠸⠀⠠⠰", "abcdefghijklmnopqrstuvwxyz.-/   ")
_BRAILLE_NUMBER = re.compile(f"⠼([{_BRAILLE_LETTERS[:10]}]+)")
_BRAILLE_DIGITS = str.maketrans(_BRAILLE_LETTERS[:10], "1234567890")


def decode_braille(text: str) -> str:
    """Return a text with the letters, digits and address marks of uncontracted Braille as plain text."""
    plain = _BRAILLE_NUMBER.sub(lambda found: found[1].translate(_BRAILLE_DIGITS), text.replace("⠈⠁", "@"))
    return plain.replace("⠠", "").translate(_BRAILLE)


def decode_words(text: str) -> Iterator[str]:
    """Yield the decoded form of each word that is encoded text (RFC 4648, or ASCII codes)."""
    data = text.encode("ascii", "replace")
    for pattern, decoders, of_its_letters, least in _DECODERS:
        if least not in data.translate(of_its_letters):
            continue
        for found in pattern.finditer(text):
            for decoder in decoders:
                decoded = _try_decode(decoder, found[0])
                if decoded is not None and "".join(decoded.split()).isprintable():
                    yield decoded
                    break


def _try_decode(decoder: Callable[[str], bytes], word: str) -> str | None:
    try:
        return decoder(word).decode()
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


def _letters_table(letters: str) -> bytes:
    """Return a table that replaces these characters with `x`, and all others with a blank."""
    return bytes(ord("x") if chr(code) in letters else 0x20 for code in range(256))


_BASE64_LETTERS = string.ascii_letters + string.digits + "+/_-"
_DECODERS: tuple[tuple[re.Pattern[str], tuple[Callable[[str], bytes], ...], bytes, bytes], ...] = (
    (_WORDS, (_from_hex, _from_base64, _from_base32), _letters_table(_BASE64_LETTERS), b"x" * 12),
    (_LINES, (_from_base64,), _letters_table(_BASE64_LETTERS), b"x" * 60),
    (_GROUPS, (_from_codes, _from_pairs), _letters_table(string.hexdigits + "xX:, ;-"), b"x" * 17),
    (_BITS, (_from_bits,), _letters_table("01 "), b"x" * 48),
)
"""Each pattern with its decoders, and with a faster check that is made first.

The table replaces each letter of the pattern's matches with `x`. A text without the run of `x` has no match.
"""
