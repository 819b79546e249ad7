"""Read what hexdump, xxd, od and debuggers print: lines of an offset, bytes as hexadecimal, and the bytes as text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from wasmrt.egress.leaks._budgets import Check
from wasmrt.egress.leaks._linear import compile_linear

_OFFSET = rb"[ \t|]{0,16}(?:0[xX])?[A-Fa-f]{0,8}[0-9][0-9A-Fa-f]{3,15}[:|>]?[ \t|]{1,8}"
DUMP = rb"(?:^|\n)" + _OFFSET + rb"[0-9A-Fa-f]{2}"
"""An expression that every text with a dump matches."""
_WORDS = rb"((?:[0-9A-Fa-f]{2}){1,8}(?:(?: {1,3}|\t|-)(?:[0-9A-Fa-f]{2}){1,8})*)"
_LEAST_BYTES = 2
_MOST_OF_A_LINE = (16, 8, 32, 20)
"""Bytes a line, where the text beside them may look like more of them."""


@lru_cache(maxsize=1)
def _line() -> Any:
    return compile_linear(rb"(?m)^" + _OFFSET + _WORDS + rb"(?:[^0-9A-Fa-f\n][^\n]*)?$", captures=True)


@lru_cache(maxsize=1)
def _dump() -> Any:
    return compile_linear(DUMP)


def dumped(data: bytes, check: Check) -> Iterator[tuple[int, int, bytes]]:
    """Yield the places and the bytes of dumps: each as printed, and with the bytes of words in the other order."""
    lines: list[bytes] = []
    start = end = -1
    for found in _line().finditer(data) if _dump().search(data) is not None else ():
        check()
        if lines and found.start() > end + 2:
            yield from _contents(start, end, lines)
            lines = []
        start, end = start if lines else found.start(), found.end()
        lines.append(found[1])
    if lines:
        yield from _contents(start, end, lines)


def _contents(start: int, end: int, lines: list[bytes]) -> Iterator[tuple[int, int, bytes]]:
    whole = [bytes.fromhex(line.translate(None, b" \t-").decode()) for line in lines]
    if sum(map(len, whole)) < _LEAST_BYTES * len(whole):
        return
    seen: set[bytes] = set()
    for most in (max(map(len, whole)), *_MOST_OF_A_LINE):
        content = b"".join(line[:most] for line in whole)
        for read in (content, _swapped(content, 2), _swapped(content, 4)):
            if read not in seen:
                seen.add(read)
                yield start, end, read


def _swapped(content: bytes, word: int) -> bytes:
    """Return the bytes of little-endian words in their own order, as `od -x` and `hexdump` print them."""
    whole = len(content) // word * word
    turned = bytearray(whole)
    for at in range(word):
        turned[at::word] = content[word - 1 - at : whole : word]
    return bytes(turned) + content[whole:]
