"""Unicode normal forms of untrusted text.

`unicodedata.normalize` is one C call that holds the GIL, and its time grows with the square of the number of combining
characters in a row: 64,000 of them take four seconds. Longer texts are therefore normalized in pieces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Literal

_PIECE = 256
"""Characters in a piece. Other threads can run between two pieces."""
_MAX_PIECE = 512
"""Maximum characters of a piece, which takes 0.5 ms. Longer runs without a place to cut are not normalized exactly."""
_LAST = 0x20000
"""The code point after the last character that combines with the previous one."""


def normalize(form: Literal["NFC", "NFKC", "NFD", "NFKD"], text: str) -> str:
    """Return a text in a normal form.

    More than 512 combining characters in a row are reordered in pieces, not as a whole.
    """
    if text.isascii():
        return text
    return "".join(unicodedata.normalize(form, piece) for piece in split_text(text))


def split_text(text: str) -> Iterator[str]:
    """Yield short pieces of a text, which can be normalized one by one."""
    start, length = 0, len(text)
    while length - start > _MAX_PIECE:
        found = _compile_starters().search(text, start + _PIECE, start + _MAX_PIECE)
        end = found.start() if found else start + _MAX_PIECE
        yield text[start:end]
        start = end
    yield text[start:]


@cache
def _compile_starters() -> re.Pattern[str]:
    """Return an expression that matches a character which no normal form joins to the previous character."""
    seconds = {0x1161 + n for n in range(21)} | {0x11A8 + n for n in range(27)}  # Hangul vowels and final consonants
    for code in range(0x80, _LAST):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(int(parts[1], 16))
    joined = "".join(
        re.escape(chr(code))
        for code in range(0x80, _LAST)
        if ord(one := unicodedata.normalize("NFKD", chr(code))[0]) in seconds or unicodedata.combining(one)
    )
    return re.compile(f"[^{joined}]")
