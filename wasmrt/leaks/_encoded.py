"""Decode content that is encoded as a whole: base64, base32, hex and lists of bytes, gzip and zlib."""

from __future__ import annotations

import binascii
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from wasmrt.leaks._budgets import PIECE_BYTES, Check, DecodeBudget, no_check
from wasmrt.leaks._escapes import holds_escapes
from wasmrt.leaks._linear import compile_linear
from wasmrt.limits import KIB

_MAX_ARCHIVES = 16
_PEEK_BYTES = 64 * KIB
"""Bytes that are decoded to see whether content is nested once more."""

_RUN = rb"[A-Za-z0-9+/_\-]{24,}(?:\r?\n[ \t]*[A-Za-z0-9+/_\-]{4,})*"
_NUMBER = rb"(?:\b0[xX][0-9A-Fa-f]{1,2}|\b[0-9]{1,3})"
_LIST = _NUMBER.replace(rb"\b", b"") + rb"(?:[,;]?[ \t\r\n]{0,16}" + _NUMBER + rb"){7,}"
"""Bytes as their numbers, as programs print them."""
LEAST_ENCODED = rb"[A-Za-z0-9+/_\-]{24}|(?:" + _NUMBER.replace(rb"\b", b"") + rb"[,; \t\r\n]+){7}[0-9]"
"""An expression that every text with a run or a list matches."""
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_MARKED = bytes(120 if byte in _ALPHABET else 32 for byte in range(256))
_LEAST_RUN = b"x" * 24
_BETWEEN = re.compile(rb"[,; \t\r\n]")
_AS_BLANKS = bytes.maketrans(b",;", b"  ")
_CONTROLS = bytes((*range(33), 127))
_LEAST_TEXT = 6
"""Characters of a list that is worth searching."""
_CONTINUED = 4
"""Characters of a line that continues a run."""
_PROBE = 32
"""Characters of a run that are decoded first: the rest only where they decode to text."""
_HEX_RUN = re.compile(rb"[0-9A-Fa-f]{32,}")
_BASE32_RUN = re.compile(rb"[A-Z2-7]{24,}|[a-z2-7]{24,}")
_AS_DIGITS = bytes.maketrans(
    b"abcdefghijklmnopqrstuvwxyz234567ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    b"0123456789abcdefghijklmnopqrstuv0123456789abcdefghijklmnop",
)
_PRINTABLE = bytes(range(32, 127)) + b"\t\r\n"
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
_WIDE = _PRINTABLE + b"\0\xff\xfe"
"""The bytes of UTF-16 of such text: its zeros vanish in the normal form."""
GZIP, ZLIB = b"\x1f\x8b\x08", (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


@lru_cache(maxsize=2)
def _linear(expression: bytes) -> Any:
    return compile_linear(expression)


def decode(data: bytes, budget: DecodeBudget, *, runs: bool = True) -> Iterator[tuple[int, int, bytes]]:
    """Yield `(start, end, content)` of encoded content: archives, and with `runs` base64, base32, hex and lists."""
    for start, inner in _archives(data, budget):
        yield start, len(data), inner
    if not runs:
        return
    for start, end, inner in _lists(data, budget.check):
        text = len(inner.translate(None, _CONTROLS))
        if (text >= _LEAST_TEXT or inner[:3] == GZIP) and budget.charge(len(inner)):
            yield start, end, inner
    for start, end in _runs(data):
        budget.check()
        for inner in _decoded(data[start:end]):
            if _is_text(inner) and budget.charge(len(inner)):
                yield start, end, inner


def is_encoded(data: bytes, check: Check = no_check) -> bool:
    """Tell whether a text holds content that is nested once more."""
    return holds_escapes(data, check) or any(True for _ in decode(data, DecodeBudget(left=_PEEK_BYTES, check=check)))


def _runs(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the places of base64 or hex: long words and the lines that continue them."""
    overlap = len(_LEAST_RUN) - 1
    for low in range(0, len(data), PIECE_BYTES):
        if _LEAST_RUN in data[low : low + PIECE_BYTES + overlap].translate(_MARKED):
            break
    else:
        return
    marked = data.translate(_MARKED)
    start = marked.find(_LEAST_RUN, low)
    while start >= 0:
        end = marked.find(b" ", start)
        if end < 0:
            end = len(data)
        elif data[end] in b"\r\n":
            end = _linear(_RUN).match(data, start).end()
        yield start, end
        start = marked.find(_LEAST_RUN, end)


def _lists(data: bytes, check: Check) -> Iterator[tuple[int, int, bytes]]:
    """Yield the places and the bytes of lists of numbers, decimal or hexadecimal."""
    for match in _linear(_LIST).finditer(data):
        low, end = match.span()
        inner = bytearray()
        while low < end:
            check()
            gap = _BETWEEN.search(data, min(low + PIECE_BYTES, end), end)
            high = gap.start() if gap else end
            inner += _bytes_of(data[low:high])
            low = high
        yield *match.span(), bytes(inner)


def _bytes_of(numbers: bytes) -> bytes:
    """Read numbers as bytes; one that is too large is left out, so that it hides nothing."""
    words = numbers.translate(_AS_BLANKS).split()
    if b"x" in numbers or b"X" in numbers:
        return bytes(v for w in words if (v := int(w, 16 if w[1:2] in (b"x", b"X") else 10)) < 256)
    values = list(map(int, words))
    return bytes(values) if max(values, default=0) < 256 else bytes(v for v in values if v < 256)


def continues_run(lines: bytes | bytearray) -> bool:
    """Tell whether whole lines that follow a run are more of it."""
    texts = (line.strip(b" \t\r") for line in lines.split(b"\n")[:-1])
    return all(text and not text.translate(None, _ALPHABET + b"=") for text in texts)


def unfinished_run(text: bytes) -> int:
    """Return where a run begins that a line after this text may continue; the text's length where none does."""
    start = end = len(text)
    if _LEAST_RUN not in text.translate(_MARKED):
        return end
    while text.endswith(b"\n", 0, end):
        stop = end - (2 if text.endswith(b"\r\n", 0, end) else 1)
        begin = text.rfind(b"\n", 0, stop) + 1
        line = text[begin:stop]
        before = line.rstrip(_ALPHABET + b"=")
        word = len(line) - len(before)
        if word >= len(_LEAST_RUN):
            start = stop - word
        if word < _CONTINUED or before.strip(b" \t"):
            break
        end = begin
    return start


def _decoded(run: bytes) -> Iterator[bytes]:
    digits = run.translate(None, b" \t\r\n")
    hexadecimal = _HEX_RUN.fullmatch(digits) is not None and len(digits) % 2 == 0
    if hexadecimal and _is_text(bytes.fromhex(digits[:_PROBE].decode())):
        yield bytes.fromhex(digits.decode())
    if _BASE32_RUN.fullmatch(digits) and _is_text(_base32(digits[:_PROBE])):
        yield _base32(digits)
    standard = digits.replace(b"-", b"+").replace(b"_", b"/")
    if _is_text(binascii.a2b_base64(standard[: min(_PROBE, len(standard) // 4 * 4)])):
        yield binascii.a2b_base64(standard[: len(standard) // 4 * 4] + _tail(standard))


def _base32(digits: bytes) -> bytes:
    """RFC 4648 section 6, in either case, as one number; what is left of a last byte is dropped."""
    bits = 5 * len(digits)
    return (int(digits.translate(_AS_DIGITS), 32) >> bits % 8).to_bytes(bits // 8, "big")


def _tail(standard: bytes) -> bytes:
    rest = standard[len(standard) // 4 * 4 :]
    return rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""


def _is_text(inner: bytes) -> bool:
    if inner[:3] == GZIP or inner[:2] in ZLIB:
        return True
    wide = b"\0" in inner[:2] or inner[:2] in _BYTE_ORDER_MARKS
    return not inner.translate(None, _WIDE if wide else _PRINTABLE)


def _archives(data: bytes, budget: DecodeBudget) -> Iterator[tuple[int, bytes]]:
    if data[:2] in ZLIB:
        inner = _inflated(data, zlib.MAX_WBITS, budget)
        if inner:
            yield 0, inner
    at, seen = data.find(GZIP) if GZIP[0] in data else -1, 0  # one byte is found sixty times as fast as three
    while at >= 0 and seen < _MAX_ARCHIVES:
        inner = _inflated(data[at:], zlib.MAX_WBITS | 16, budget)
        if inner:
            yield at, inner
        at, seen = data.find(GZIP, at + 3), seen + 1
    budget.exceeded = budget.exceeded or at >= 0


def _inflated(data: bytes, wbits: int, budget: DecodeBudget) -> bytes:
    stream = zlib.decompressobj(wbits)
    try:
        inner = stream.decompress(data, max(1, budget.left))
    except zlib.error:
        return b""
    budget.exceeded = budget.exceeded or bool(stream.unconsumed_tail)
    return inner if budget.charge(len(inner)) else b""
