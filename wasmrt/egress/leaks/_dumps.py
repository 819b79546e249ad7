"""Find dumps of programs such as `xxd`, `hexdump` and `od`, and read their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from wasmrt.egress.leaks._linear import compile_linear
from wasmrt.egress.leaks._model import Check
from wasmrt.egress.leaks._notations import swap_bytes

_MARGIN = rb"[ \t|\"'`>#*]{0,16}"
_OFFSET = _MARGIN + rb"(?:0[xX])?[A-Fa-f]{0,8}[0-9][0-9A-Fa-f]{3,15}[:|>]?[ \t|]{1,8}"
DUMP = rb"(?:^|\n)" + _OFFSET + rb"[0-9A-Fa-f]{2}"
"""An expression that matches every text with a dump."""
_COLUMNS = _OFFSET + rb"([0-9]{3,20}(?:[ \t]{1,8}[0-9]{3,20})*)[ \t]*(?:[ \t]{2}[^\n]*)?$"
_WORDS = rb"((?:[0-9A-Fa-f]{2}){1,8}(?:(?: {1,3}|\t|-)(?:[0-9A-Fa-f]{2}){1,8})*)"
_LEAST_BYTES = 2
_MOST_OF_A_LINE = (16, 8, 32, 20)
"""Usual numbers of bytes per line. Lines are also cut to them, in case the text column looks like more bytes."""


@lru_cache(maxsize=1)
def _compile_line() -> Any:
    return compile_linear(rb"(?m)^" + _OFFSET + _WORDS + rb"(?:[^0-9A-Fa-f\n][^\n]*)?$", captures=True)


@lru_cache(maxsize=1)
def _dump_expression() -> Any:
    return compile_linear(DUMP)


@lru_cache(maxsize=1)
def _compile_columns() -> tuple[Any, Any]:
    """Compile an expression for the first line of a dump of numbers, and an expression for every line."""
    first = rb"(?m)^" + _MARGIN + rb"0{4,16}[:|>]?[ \t|]{1,8}[0-9]{3}"
    return compile_linear(first), compile_linear(rb"(?m)^" + _COLUMNS, captures=True)


def may_hold_dump(data: bytes) -> bool:
    """Return whether a text may contain a dump of any kind."""
    return _dump_expression().search(data) is not None


def find_columns(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the place and the numbers of a dump of octal, decimal or binary numbers, without the offsets."""
    first, line = _compile_columns()
    if (start := first.search(data)) is not None:
        lines = list(line.finditer(data, start.start()))
        if lines:
            # Join with commas, so that the numbers do not look like a dump again.
            yield start.start(), lines[-1].end(), b",".join(b",".join(found[1].split()) for found in lines)


def decode_dumps(data: bytes, check: Check) -> Iterator[tuple[int, int, bytes]]:
    """Yield the places and bytes of dumps. Each dump is yielded as printed and with the bytes of each word reversed."""
    lines: list[bytes] = []
    start = end = -1
    for found in _compile_line().finditer(data):
        check()
        if lines and found.start() > end + 2:
            yield from _decode_dump(start, end, lines)
            lines = []
        start, end = start if lines else found.start(), found.end()
        lines.append(found[1])
    if lines:
        yield from _decode_dump(start, end, lines)


def _decode_dump(start: int, end: int, lines: list[bytes]) -> Iterator[tuple[int, int, bytes]]:
    whole = [bytes.fromhex(line.translate(None, b" \t-").decode()) for line in lines]
    if sum(map(len, whole)) < _LEAST_BYTES * len(whole):
        return
    seen: set[bytes] = set()
    for most in (max(map(len, whole)), *_MOST_OF_A_LINE):
        content = b"".join(line[:most] for line in whole)
        for read in (content, *(swap_bytes(content, size) for size in (2, 4, 8))):
            if read not in seen:
                seen.add(read)
                yield start, end, read
