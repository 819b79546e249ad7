"""Undo one layer of encoding: escapes inside a text, and base64, hex or gzip around a whole one."""

from __future__ import annotations

import binascii
import re
import unicodedata
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wasmrt.limits import KIB, MIB

if TYPE_CHECKING:
    from wasmrt.leaks._engine import Check

MAX_DEPTH = 5
MAX_OPENED_BYTES = 32 * MIB
"""Decoded and unpacked bytes of one scan together: a bomb costs this much and no more."""
_MAX_ARCHIVES = 16
_MORE_BYTES = 64 * KIB
"""What is opened to see whether there is one more layer."""
PIECE_BYTES = 64 * KIB
"""What is looked at in one go while nothing is found."""
_CHECK_STEPS = 4096
"""Escapes, or what looks like one, between two questions whether to go on."""
_PIECE_OF_ESCAPES = 8 * KIB
_LONGEST_ESCAPE = 16
"""Of those that are not a row of several."""
_CROWDED = 32
"""From one first byte in so many on, looking for each by itself takes longer than going through all."""
_STEP_BYTES = 32
"""An escape takes as long as so many bytes that are unpacked."""


def go_on() -> None:
    """Check nothing: nobody waits for this scan."""


@dataclass(slots=True)
class Budget:
    """What one scan may still open."""

    depth: int = MAX_DEPTH
    left: int = MAX_OPENED_BYTES
    exceeded: bool = False
    """Something was left unopened: too large, too deep or too many."""
    check: Check = go_on
    """Called all along; raises when the scan is to end."""

    def take(self, size: int) -> bool:
        self.left -= size
        self.exceeded = self.exceeded or self.left < 0
        return self.left >= 0

    def step(self, escapes: int) -> bool:
        """Pay for escapes, or what looks like one; False where nothing is left for more of them."""
        self.check()
        return self.take(escapes * _STEP_BYTES)


@dataclass(frozen=True, slots=True)
class Unescaped:
    """Text with one layer of escapes undone, and the way back."""

    data: bytes
    _out: list[int] = field(repr=False)
    _src: list[int] = field(repr=False)
    """Piece k begins at `_out[k]` here and at `_src[k]` there; odd pieces are escapes, whole or nothing."""

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The offsets, in the escaped text, of `start..end` here."""
        first = bisect_right(self._out, start) - 1
        last = bisect_right(self._out, end - 1) - 1
        begin = self._src[first] if first % 2 else self._src[first] + start - self._out[first]
        stop = self._src[last + 1] if last % 2 else self._src[last] + end - self._out[last]
        return begin, stop


_FAMILIES = {
    b"%": rb"(?<=%)[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*",
    b"\\": rb"(?<=\\)(?:[\\/\"'abfnrtv]|x[0-9A-Fa-f]{2}(?:\\x[0-9A-Fa-f]{2})*|u[0-9A-Fa-f]{4}(?:\\u[0-9A-Fa-f]{4})*"
    rb"|[0-3][0-7]{2}(?:\\[0-3][0-7]{2})*|[0-7]{1,2}|u\{[0-9A-Fa-f]{1,6}\}|U[0-9A-Fa-f]{8})",
    b"&": rb"(?<=&)(?:#[0-9]{1,7};?|#[xX][0-9A-Fa-f]{1,6};?|(?:amp|lt|gt|quot|apos|nbsp);)",
    b"\xef": rb"(?<=\xef)(?:\xbc[\x81-\xbf]|\xbd[\x80-\x9e])(?:\xef(?:\xbc[\x81-\xbf]|\xbd[\x80-\x9e])){3,}",
    b"\xf0": rb"(?<=\xf0)\x9d[\x90-\x9f][\x80-\xbf](?:\xf0\x9d[\x90-\x9f][\x80-\xbf]){3,}",
}
"""What follows the first byte of an escape. The last two are letters in another width or style (Unicode, UAX 15)."""


@lru_cache(maxsize=8)
def _escapes(families: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Compile what an escape looks like: by `re`, whose matches cost least; where to look is found without it."""
    first = b"".join(map(re.escape, families))
    return re.compile(b"[" + first + b"](?:" + b"|".join(_FAMILIES[family] for family in families) + b")")


@lru_cache(maxsize=2)
def _long(expression: bytes) -> Any:
    """Compile what finds runs and lists: RE2, since they are long."""
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    return re2.compile(expression, options)


_NAMED = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'", b"nbsp": b" "}
_SINGLE = {b"\\\\": b"\\", b"\\/": b"/", b'\\"': b'"', b"\\'": b"'"} | {b"\\" + bytes([c]): b"\n" for c in b"abfnrtv"}


def unescapings(data: bytes, *, apart: bool, budget: Budget) -> Iterator[Unescaped]:
    """Undo one layer: every kind of escape at once, and with `apart` each kind by itself too.

    A secret that holds `%41` or `&lt;` literally survives only the latter.
    """
    present = [family for family in _FAMILIES if family in data and (family < b"\x80" or _holds_letters(data, family))]
    if not present:
        return
    everything = _undone(data, present, budget)
    if everything is not None:
        yield everything
    if apart and len(present) > 1:
        for family in present:
            alone = _undone(data, [family], budget)
            if alone is not None and everything is not None and alone.data != everything.data:
                yield alone


def _holds_letters(data: bytes, family: bytes) -> bool:
    """Tell whether other letters than the usual stand in a row: their first byte begins many a sign that is none."""
    return _escapes((family,)).search(data) is not None


def holds_escapes(data: bytes, check: Check = go_on) -> bool:
    """Tell whether a text reads differently once escapes are undone."""
    return next(_places(data, list(_FAMILIES), Budget(check=check)), None) is not None


def unescaped(data: bytes, check: Check = go_on) -> Unescaped | None:
    """Undo percent, `\\u`, `\\x`, JSON and HTML escapes once; None where there are none."""
    return next(unescapings(data, apart=False, budget=Budget(check=check)), None)


def _places(data: bytes, families: list[bytes], budget: Budget) -> Iterator[tuple[int, int]]:
    """Yield where escapes are, going from one first byte to the next, as far as the budget goes."""
    look = _escapes(tuple(families))
    if sum(map(data.count, families)) * _CROWDED > len(data):
        yield from _crowded_places(data, look, budget)
        return
    ahead = [at for family in families if (at := data.find(family)) >= 0]
    steps = 0
    while ahead:
        steps += 1
        if not steps % _CHECK_STEPS and not budget.step(_CHECK_STEPS):
            return
        start = min(ahead)
        found = look.match(data, start)
        end = start + 1
        if found:
            end = found.end()
            yield start, end
        if len(ahead) == 1:
            at = data.find(data[start], end)
            ahead = [at] if at >= 0 else []
        else:
            ahead = [at if at >= end else data.find(data[at], end) for at in ahead]
            ahead = [at for at in ahead if at >= 0]


def _crowded_places(data: bytes, look: re.Pattern[bytes], budget: Budget) -> Iterator[tuple[int, int]]:
    """Yield the same where one escape follows another: by the expression alone, piece by piece."""
    position = steps = 0
    while position < len(data):
        edge = position + _PIECE_OF_ESCAPES
        for found in look.finditer(data, position, edge + _LONGEST_ESCAPE):
            if found.start() >= edge:
                break
            steps += 1
            position = found.end()
            yield found.span()
        position = max(position, edge)
        if not budget.step(steps):
            return
        steps = 0


def _undone(data: bytes, families: list[bytes], budget: Budget) -> Unescaped | None:
    pieces: list[bytes] = []
    out, src = [0], [0]
    position = length = 0
    known = dict(_SINGLE)
    for start, end in _places(data, families, budget):
        escape = data[start:end]
        value = known.get(escape)
        if value is None:
            value = _value(escape)
            if end - start <= _LONGEST_ESCAPE:
                known[escape] = value
        plain = data[position:start]
        pieces += (plain, value)
        length += len(plain)
        out.append(length)
        src.append(start)
        length += len(value)
        out.append(length)
        src.append(end)
        position = end
    if not position:
        return None
    pieces.append(data[position:])
    return Unescaped(b"".join(pieces), out, src)


def _value(escape: bytes) -> bytes:
    if escape[:1] == b"%":
        return bytes.fromhex(escape.replace(b"%", b"").decode())
    if escape[:2] == b"\\x":
        return bytes.fromhex(escape.replace(b"\\x", b"").decode())
    if escape[:2] in (b"\\u", b"\\U"):
        if escape[2:3] == b"{":
            return _utf8(int(escape[3:-1], 16))
        units = bytes.fromhex(escape[2:].replace(b"\\u", b"").decode())
        return units.decode("utf-32-be" if escape[1:2] == b"U" else "utf-16-be", "replace").encode()
    if escape[:1] == b"\\":
        return bytes(int(digits, 8) for digits in escape.split(b"\\")[1:])
    if escape[:1] in b"\xef\xf0":
        return unicodedata.normalize("NFKC", escape.decode("utf-8", "replace")).encode()
    if escape[:2] == b"&#":
        digits = escape[2:].rstrip(b";")
        return _utf8(int(digits[1:], 16) if digits[:1] in b"xX" else int(digits))
    return _NAMED[escape[1:-1]]


def _utf8(point: int) -> bytes:
    return chr(point).encode("utf-8", "replace") if point < 0x110000 else b"?"


_RUNS = rb"[A-Za-z0-9+/_\-]{24,}(?:\r?\n[ \t]*[A-Za-z0-9+/_\-]{4,})*"
_LIST = rb"(?:0[xX][0-9A-Fa-f]{1,2}|[0-9]{1,3})(?:[,;]?[ \t\r\n]{0,16}(?:\b0[xX][0-9A-Fa-f]{1,2}|\b[0-9]{1,3})){7,}"
"""Bytes as their numbers, as programs print them."""
LEAST_PACKED = rb"[A-Za-z0-9+/_\-]{24}|" + _LIST.replace(b"{7,}", b"{7}")
"""What every run and every list begins with: a text without it holds none."""
_PACKING = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_MARKED = bytes(120 if byte in _PACKING else 32 for byte in range(256))
_LEAST_RUN = b"x" * 24
_CONTINUED = 4
"""What a line that goes on with a run holds at least."""
_PROBE = 32
"""Characters of a run that are decoded first: what they hold says whether the rest is worth it."""
_HEX_RUN = re.compile(rb"[0-9A-Fa-f]{32,}")
_BASE32_RUN = re.compile(rb"[A-Z2-7]{24,}|[a-z2-7]{24,}")
_AS_DIGITS = bytes.maketrans(
    b"abcdefghijklmnopqrstuvwxyz234567ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    b"0123456789abcdefghijklmnopqrstuv0123456789abcdefghijklmnop",
)
_NUMBER = re.compile(rb"0[xX][0-9A-Fa-f]+|[0-9]+")
_PRINTABLE = bytes(range(32, 127)) + b"\t\r\n"
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
_WIDE = _PRINTABLE + b"\0\xff\xfe"
"""What UTF-16 of such text is made of: its zeros vanish in the normal form."""
GZIP, ZLIB = b"\x1f\x8b\x08", (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def opened(data: bytes, budget: Budget, *, runs: bool = True) -> Iterator[tuple[int, int, bytes]]:
    """Yield `(start, end, content)` of what was packed whole: base64 and hex `runs`, gzip and zlib streams."""
    for start, inner in _archives(data, budget):
        yield start, len(data), inner
    if not runs:
        return
    for start, end, inner in _lists(data):
        budget.check()
        if _worth_opening(inner[:_PROBE]) and budget.take(len(inner)):
            yield start, end, inner
    for start, end in _runs(data):
        budget.check()
        for inner in _decoded(data[start:end]):
            if _worth_opening(inner) and budget.take(len(inner)):
                yield start, end, inner


def is_packed(data: bytes, check: Check = go_on) -> bool:
    """Tell whether a text holds one more layer."""
    return holds_escapes(data, check) or any(True for _ in opened(data, Budget(left=_MORE_BYTES, check=check)))


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
            end = _long(_RUNS).match(data, start).end()
        yield start, end
        start = marked.find(_LEAST_RUN, end)


def _lists(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the places and the bytes of lists of numbers, decimal or hexadecimal."""
    for match in _long(_LIST).finditer(data):
        numbers = [int(n[2:], 16) if n[1:2] in (b"x", b"X") else int(n) for n in _NUMBER.findall(match.group())]
        if max(numbers) < 256:
            yield *match.span(), bytes(numbers)


def is_more(lines: bytes | bytearray) -> bool:
    """Tell whether lines that follow a run are more of it."""
    return not lines.translate(None, _PACKING + b"=\r\n") and b"\n\n" not in lines and b"\n\r" not in lines


def may_go_on(text: bytes) -> int:
    """Where a run begins that a line after this text may continue; the text's length where none does."""
    start = end = len(text)
    while text.endswith(b"\n", 0, end):
        stop = end - (2 if text.endswith(b"\r\n", 0, end) else 1)
        begin = text.rfind(b"\n", 0, stop) + 1
        line = text[begin:stop]
        before = line.rstrip(_PACKING + b"=")
        word = len(line) - len(before)
        if word >= len(_LEAST_RUN):
            start = stop - word
        if word < _CONTINUED or before.strip(b" \t"):
            break
        end = begin
    return start


def _decoded(run: bytes) -> Iterator[bytes]:
    packed = run.translate(None, b" \t\r\n")
    hexadecimal = _HEX_RUN.fullmatch(packed) is not None and len(packed) % 2 == 0
    if hexadecimal and _worth_opening(bytes.fromhex(packed[:_PROBE].decode())):
        yield bytes.fromhex(packed.decode())
    if _BASE32_RUN.fullmatch(packed) and _worth_opening(_base32(packed[:_PROBE])):
        yield _base32(packed)
    standard = packed.replace(b"-", b"+").replace(b"_", b"/")
    if _worth_opening(binascii.a2b_base64(standard[: min(_PROBE, len(standard) // 4 * 4)])):
        yield binascii.a2b_base64(standard[: len(standard) // 4 * 4] + _tail(standard))


def _base32(digits: bytes) -> bytes:
    """RFC 4648 section 6, in either case, as one number; what is left of a last byte is dropped."""
    bits = 5 * len(digits)
    return (int(digits.translate(_AS_DIGITS), 32) >> bits % 8).to_bytes(bits // 8, "big")


def _tail(standard: bytes) -> bytes:
    rest = standard[len(standard) // 4 * 4 :]
    return rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""


def _worth_opening(inner: bytes) -> bool:
    if inner[:3] == GZIP or inner[:2] in ZLIB:
        return True
    wide = b"\0" in inner[:2] or inner[:2] in _BYTE_ORDER_MARKS
    return not inner.translate(None, _WIDE if wide else _PRINTABLE)


def _archives(data: bytes, budget: Budget) -> Iterator[tuple[int, bytes]]:
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


def _inflated(data: bytes, wbits: int, budget: Budget) -> bytes:
    stream = zlib.decompressobj(wbits)
    try:
        inner = stream.decompress(data, max(1, min(budget.left, MAX_OPENED_BYTES)))
    except zlib.error:
        return b""
    budget.exceeded = budget.exceeded or bool(stream.unconsumed_tail)
    return inner if budget.take(len(inner)) else b""
