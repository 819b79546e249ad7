"""Decode escapes of programs, URLs and markup."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from wasmrt.core.limits import KIB
from wasmrt.core.normal_form import normalize
from wasmrt.egress.leaks._keywords import LARGE_BYTES, Prefilter
from wasmrt.egress.leaks._model import PIECE_BYTES, Check, DecodeBudget, no_check

_TAG = rb"<[A-Za-z/!?][^<>]{0,512}>"
"""An expression for tags of HTML, XML and similar languages."""
_SEQUENCE = (
    rb"(?:\x1b\[|\xc2\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]"
)
"""An expression for ECMA-48 control sequences."""
_STARTS = (b"<", b"\x1b", b"\xc2\x9b")
_NOT_PLAIN = Prefilter((r"[\x00\x1b%&<\\\x80-\xff]",))
_LONGEST = 600
"""A length that no match of these expressions exceeds."""


def is_plain(data: bytes) -> bool:
    """Return whether a text is ASCII and has no zero bytes, and no bytes with which an escape or markup may start."""
    if len(data) >= LARGE_BYTES and _NOT_PLAIN.rules_out(data):
        return not _holds_code_points(data)
    if not data.isascii() or b"%" in data or b"\\" in data or b"&" in data or b"\0" in data:
        return False
    return not _may_hold_markup(data) and not _holds_code_points(data)


def _holds_code_points(data: bytes) -> bool:
    """Return whether a text contains `U+`. Searches for one byte come first, because they are twenty times faster."""
    return b"U" in data and b"+" in data and b"U+" in data


@lru_cache(maxsize=2)
def _compile_markup(only_tags: bool) -> re.Pattern[bytes]:
    """Compile the expression for markup, on first use. An expression for tags only is faster."""
    return re.compile(_TAG if only_tags else _TAG + b"|" + _SEQUENCE)


def remove_markup(data: bytes, check: Check) -> bytes | None:
    """Return a text without its markup, or None if it contains no markup."""
    if not _may_hold_markup(data):
        return None
    bare = []
    for piece in _split_text(data):
        check()
        only_tags = b"\x1b" not in piece and b"\xc2\x9b" not in piece
        bare.append(_compile_markup(only_tags).sub(b"", piece))
    text = b"".join(bare)
    return None if len(text) == len(data) else text


def _may_hold_markup(data: bytes) -> bool:
    """Return whether a text contains one of `_STARTS`."""
    return b"<" in data or b"\x1b" in data or (b"\x9b" in data and b"\xc2\x9b" in data)


def _split_text(data: bytes) -> Iterator[bytes]:
    """Yield the pieces of a text. They are split between, not within, pieces of markup."""
    low = 0
    while low < len(data):
        high = low + PIECE_BYTES
        if high < len(data):
            last = max(data.rfind(start, high - _LONGEST, high) for start in _STARTS)
            high = last if last > low else high
        yield data[low:high]
        low = high


def remove_markup_mapped(data: bytes) -> Unescaped:
    """Return a text without its markup, with a mapping of offsets back to `data`."""
    out, src, pieces = [0], [0], []
    position = length = 0
    for found in _compile_markup(False).finditer(data):
        plain = data[position : found.start()]
        pieces.append(plain)
        length += len(plain)
        out += (length, length)
        src += (found.start(), found.end())
        position = found.end()
    pieces.append(data[position:])
    return Unescaped(b"".join(pieces), out, src)


_CHECK_STEPS = 4096
"""Number of escapes, or of bytes that may start an escape, between two charges to the budget."""
_PIECE_OF_ESCAPES = 8 * KIB
_LONGEST_ESCAPE = 16
"""Maximum length of a single escape. A sequence of escapes may be longer."""
_CROWDED = 32
"""If more than one byte in this many may start an escape, one expression is faster than a search for each such byte."""


class Unescaped(NamedTuple):
    """Text with one level of escapes decoded, and a mapping of offsets to the original."""

    data: bytes
    out: list[int]
    src: list[int]
    """Piece k starts at `out[k]` here and at `src[k]` in the escaped text; odd pieces are escapes."""

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return the offsets in the escaped text for the offsets `start..end` in `data`."""
        first = bisect_right(self.out, start) - 1
        last = bisect_right(self.out, end - 1) - 1
        begin = self.src[first] if first % 2 else self.src[first] + start - self.out[first]
        stop = self.src[last + 1] if last % 2 else self.src[last] + end - self.out[last]
        return begin, stop


_FAMILIES = {
    b"%": rb"(?<=%)(?:[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*|u[0-9A-Fa-f]{4})",
    b"\\": rb"(?<=\\)(?:(?:\\\\)*\\|[/\"'abfnrtv]|x[0-9A-Fa-f]{2}(?:\\x[0-9A-Fa-f]{2})*|x\{[0-9A-Fa-f]{1,12}\}"
    rb"|u[0-9A-Fa-f]{4}(?:\\u[0-9A-Fa-f]{4})*"
    rb"|[0-3][0-7]{2}(?:\\[0-3][0-7]{2})*|[0-7]{1,2}|u\{[0-9A-Fa-f]{1,12}\}|o\{[0-7]{1,12}\}|U[0-9A-Fa-f]{8})",
    b"&": rb"(?<=&)(?:#[0-9]{1,12};?|#[xX][0-9A-Fa-f]{1,11};?|(?:amp|lt|gt|quot|apos|nbsp|shy|Tab|NewLine);)",
    b"\xef": rb"(?<=\xef)(?:\xbc[\x81-\xbf]|\xbd[\x80-\x9e])(?:\xef(?:\xbc[\x81-\xbf]|\xbd[\x80-\x9e])){3,}",
    b"\xf0": rb"(?<=\xf0)(?:\x9d[\x90-\x9f][\x80-\xbf]|\x9f(?:[\x84\x85][\x80-\xbf]|\x86[\x80-\x8a]|\x87[\xa6-\xbf]))",
    b"\xe2": rb"(?<=\xe2)(?:[\x91-\x93][\x80-\xbf]|\x81[\xb0-\xbf]|\x82[\x80-\x9c]|\x84[\x82-\xb4]"
    rb"|[\xa0-\xa3][\x80-\xbf])",
    b"\xe1": rb"(?<=\xe1)(?:\xb4[\x80-\x9c\xa0-\xa2\xac-\xbf]|\xb5[\x80-\xaa]|\xb6[\x9b-\xbf])",
    b"\xc7": rb"(?<=\xc7)\xab",
    b"\xea": rb"(?<=\xea)\x9c[\xb0\xb1]",
    b"\xc9": rb"(?<=\xc9)[\xa2\xaa\xb4]",
    b"\xca": rb"(?<=\xca)[\x80\x8f\x99\x9c\x9f]",
    b"\xf3": rb"(?<=\xf3)\xa0[\x80\x81\x84-\x87][\x80-\xbf]",
    b"\xd0": rb"(?<=\xd0)[\x85\x86\x88\x90\x92\x95\x9a\x9c-\x9e\xa0-\xa2\xa5\xb0\xb5\xbe]",
    b"\xd1": rb"(?<=\xd1)[\x80\x81\x83\x85\x95\x96\x98]",
    b"\xce": rb"(?<=\xce)[\x91\x92\x95-\x97\x99\x9a\x9c\x9d\x9f\xa1\xa4\xa5\xa7\xbf]",
    b"U": rb"(?<=U)\+[0-9A-Fa-f]{4,6}(?![0-9A-Fa-f])",
}
"""Expressions for escapes, by first byte. The escapes that begin with a non-ASCII byte are letters in another width or
style (Unicode, UAX 15): full-width, mathematical, circled, squared, regional indicators, raised and lowered, and
characters that stand for bytes: tags, variation selectors, Braille. Of full-width letters, four must be in a row."""


@lru_cache(maxsize=8)
def _escape_expression(families: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Compile the expression for escapes of these families with `re`, which is fastest for short matches."""
    first = b"".join(map(re.escape, families))
    if len(families) > 1:  # a single literal byte is ten times as fast as a character class
        first = b"[" + first + b"]"
    return re.compile(first + b"(?:" + b"|".join(_FAMILIES[family] for family in families) + b")")


_REPLACED = {first + n: ord("A") + n for first in (0x1F150, 0x1F170, 0x1F1E6) for n in range(26)}
_REPLACED |= {first + byte: byte for first in (0x2800, 0xE0000, 0xE0100 - 16) for byte in range(32, 127)}
"""Negative, circled and squared letters, regional indicators, Braille, tags and variation selectors, which
normalization does not change."""
_LOOK_ALIKES = dict(
    zip("ЅІЈАВЕКМНОРСТХаеорсухѕіјΑΒΕΖΗΙΚΜΝΟΡΤΥΧο", "SIJABEKMHOPCTXaeopcyxsijABEZHIKMNOPTYXo", strict=True)
)
_LOOK_ALIKES |= dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz", strict=True))
_REPLACED |= {ord(letter): ord(other) for letter, other in _LOOK_ALIKES.items()}
_NAMED = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'", b"nbsp": b" "}
_NAMED |= {b"shy": b"\xc2\xad", b"Tab": b"\t", b"NewLine": b"\n"}
_SINGLE = {bytes((92, a)): bytes((b,)) for a, b in zip(b"\\/\"'abfnrtv", b"\\/\"'\a\b\f\n\r\t\v", strict=True)}


_ASCII_FAMILIES = tuple(family for family in _FAMILIES if family.isascii())
_ALPHABETS = (b"\xd0", b"\xd1", b"\xce")
"""First bytes of Cyrillic and Greek letters that look like Latin letters."""
_COMMON = (b"%", b"\\", b"&")
"""First bytes that usually start an escape. The other first bytes are also common outside of escapes."""


def iterate_unescaped(data: bytes, *, apart: bool, budget: DecodeBudget) -> Iterator[Unescaped]:
    """Decode one level of escapes: all kinds together, and with `apart` also each kind separately.

    A secret that contains `%41` or `&lt;` literally is only found if the kinds are decoded separately.
    """
    families = _ASCII_FAMILIES if data.isascii() else _FAMILIES
    present = [family for family in families if family in data and (family in _COMMON or _holds_family(data, family))]
    if not present:
        return
    everything = _unescape(data, present, budget)
    if everything is not None:
        yield everything
    if apart and len(present) > 1:
        for family in present:
            alone = _unescape(data, [family], budget)
            if alone is not None and everything is not None and alone.data != everything.data:
                yield alone


def _holds_family(data: bytes, family: bytes) -> bool:
    """Return whether the text has escapes of a family whose first byte is also common outside of escapes."""
    if family == b"U":
        return _holds_code_points(data)
    if family in _ALPHABETS:  # letters of an alphabet only count in a word with Latin letters or digits
        return _compile_mixed(family).search(data) is not None
    return _escape_expression((family,)).search(data) is not None


@lru_cache(maxsize=4)
def _compile_mixed(family: bytes) -> re.Pattern[bytes]:
    letter = _FAMILIES[family].partition(b")")[2]
    return re.compile(b"[0-9A-Za-z]%b%b|%b%b[0-9A-Za-z]" % (family, letter, family, letter))


def holds_escapes(data: bytes, check: Check = no_check) -> bool:
    """Return whether a text contains escapes."""
    return next(_find_escapes(data, list(_FAMILIES), DecodeBudget(check=check)), None) is not None


def unescape(data: bytes, check: Check = no_check) -> Unescaped | None:
    """Decode percent, `\\u`, `\\x`, JSON and HTML escapes once; return None if there are none."""
    return next(iterate_unescaped(data, apart=False, budget=DecodeBudget(check=check)), None)


def _find_places(data: bytes, families: list[bytes], budget: DecodeBudget) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each escape, until the budget is used up.

    `families` are the bytes with which an escape can begin; the search jumps from one such byte to the next.
    """
    look = _escape_expression(tuple(families))
    if sum(map(data.count, families)) * _CROWDED > len(data):
        yield from _find_crowded_places(data, look, budget)
        return
    ahead = [at for family in families if (at := data.find(family)) >= 0]
    steps = 0
    while ahead:
        steps += 1
        if not steps % _CHECK_STEPS and not budget.charge_escapes(_CHECK_STEPS):
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


def _find_crowded_places(data: bytes, look: re.Pattern[bytes], budget: DecodeBudget) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each escape, in a text with many escapes.

    One expression finds all escapes, in one piece of the text after the other.
    """
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
        if not budget.charge_escapes(steps):
            return
        steps = 0


def _find_escapes(data: bytes, families: list[bytes], budget: DecodeBudget) -> Iterator[tuple[int, int, bytes]]:
    """Yield the places and values of escapes, but not of characters whose normal form is the same character."""
    known = dict(_SINGLE)
    for start, end in _find_places(data, families, budget):
        escape = data[start:end]
        value = known.get(escape)
        if value is None:
            value = _decode_escape(escape)
            if end - start <= _LONGEST_ESCAPE:
                known[escape] = value
        if value != escape:
            yield start, end, value


def _unescape(data: bytes, families: list[bytes], budget: DecodeBudget) -> Unescaped | None:
    pieces: list[bytes] = []
    out, src = [0], [0]
    position = length = 0
    for start, end, value in _find_escapes(data, families, budget):
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


def _decode_escape(escape: bytes) -> bytes:
    if escape[:2] == b"%u":
        return _encode_point(int(escape[2:], 16))
    if escape[:1] == b"%":
        return bytes.fromhex(escape.replace(b"%", b"").decode())
    if escape[:3] in (b"\\x{", b"\\o{"):
        return _encode_point(int(escape[3:-1], 16 if escape[1:2] == b"x" else 8))
    if escape[:2] == b"\\x":
        return bytes.fromhex(escape.replace(b"\\x", b"").decode())
    if escape[:2] in (b"\\u", b"\\U"):
        if escape[2:3] == b"{":
            return _encode_point(int(escape[3:-1], 16))
        units = bytes.fromhex(escape[2:].replace(b"\\u", b"").decode())
        return units.decode("utf-32-be" if escape[1:2] == b"U" else "utf-16-be", "replace").encode()
    if escape[:2] == b"\\\\":
        # Of a long run of backslashes, one remains: decoding takes few levels, and the normal form has none anyway.
        return escape[: len(escape) // 2] if len(escape) <= _LONGEST_ESCAPE else b"\\"
    if escape[:1] == b"\\":
        return bytes(int(digits, 8) for digits in escape.split(b"\\")[1:])
    if escape[:2] == b"U+":
        return _encode_point(int(escape[2:], 16))
    if escape[:1] >= b"\x80":
        letters = escape.decode("utf-8", "replace").translate(_REPLACED)
        return normalize("NFKC", letters).encode()
    if escape[:2] == b"&#":
        digits = escape[2:].rstrip(b";")
        return _encode_point(int(digits[1:], 16) if digits[:1] in b"xX" else int(digits))
    return _NAMED[escape[1:-1]]


def _encode_point(point: int) -> bytes:
    return chr(point).encode("utf-8", "replace") if point < 0x110000 else b"?"
