"""Take out what stands between characters and is not seen: HTML tags and comments, and terminal sequences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from wasmrt.egress.leaks._budgets import PIECE_BYTES, Check
from wasmrt.egress.leaks._escapes import Unescaped

_TAG = rb"<[A-Za-z/!?][^<>]{0,512}>"
"""HTML, XML and what looks like either."""
_SEQUENCE = (
    rb"(?:\x1b\[|\xc2\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]"
)
"""ECMA-48 control sequences."""
_STARTS = (b"<", b"\x1b", b"\xc2\x9b")
_LONGEST = 600
"""More than any of them has bytes."""


@lru_cache(maxsize=2)
def _between(only_tags: bool) -> re.Pattern[bytes]:
    """Compile when it is first used: most texts need none, and tags alone are found faster, by their first byte."""
    return re.compile(_TAG if only_tags else _TAG + b"|" + _SEQUENCE)


def without_markup(data: bytes, check: Check) -> bytes | None:
    """Return a text without its markup; None where it has none."""
    if not _may_hold_markup(data):
        return None
    bare = []
    for piece in _pieces(data):
        check()
        only_tags = b"\x1b" not in piece and b"\xc2\x9b" not in piece
        bare.append(_between(only_tags).sub(b"", piece))
    text = b"".join(bare)
    return None if len(text) == len(data) else text


def _may_hold_markup(data: bytes) -> bool:
    """Tell whether one of `_STARTS` is in a text; two bytes are found twenty times as slowly as one."""
    return b"<" in data or b"\x1b" in data or (b"\x9b" in data and b"\xc2\x9b" in data)


def _pieces(data: bytes) -> Iterator[bytes]:
    """Cut a text where no markup is cut."""
    low = 0
    while low < len(data):
        high = low + PIECE_BYTES
        if high < len(data):
            last = max(data.rfind(start, high - _LONGEST, high) for start in _STARTS)
            high = last if last > low else high
        yield data[low:high]
        low = high


def with_places(data: bytes) -> Unescaped:
    """Return the same, with the way back to `data`."""
    out, src, pieces = [0], [0], []
    position = length = 0
    for found in _between(False).finditer(data):
        plain = data[position : found.start()]
        pieces.append(plain)
        length += len(plain)
        out += (length, length)
        src += (found.start(), found.end())
        position = found.end()
    pieces.append(data[position:])
    return Unescaped(b"".join(pieces), out, src)
