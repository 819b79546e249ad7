"""Find and decode encoded text: base64, base32, hexadecimal, percent-encoding, and hexadecimal dumps."""

from __future__ import annotations

import binascii
import contextlib
import re
from collections.abc import Container, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from wasmrt.core.limits import KIB
from wasmrt.egress.leaks._archives import GZIP, MAGIC, find_archives, is_archive
from wasmrt.egress.leaks._dumps import DUMP, decode_dumps, find_columns, may_hold_dump
from wasmrt.egress.leaks._inside_runs import decode_inside
from wasmrt.egress.leaks._keywords import LARGE_BYTES, Prefilter
from wasmrt.egress.leaks._linear import compile_linear
from wasmrt.egress.leaks._model import PIECE_BYTES, Check, DecodeBudget

_PEEK_BYTES = 64 * KIB
"""Bytes that are decoded to check for another level of nesting."""

_RUN = rb"[A-Za-z0-9+/_\-]{24,}(?:\r?\n[ \t]*[A-Za-z0-9+/_\-]{4,})*(?:\r?\n[ \t]*[A-Za-z0-9+/_\-]{2,3}=)?"
_NUMBER = rb"(?:\b0[xX][0-9A-Fa-f]{1,2}|\b[0-9]{1,3})"
_LIST = _NUMBER.replace(rb"\b", b"") + rb"(?:[ \t]?[,;.|/+:_\-]?[ \t\r\n]{0,16}" + _NUMBER + rb"){7,}"
"""An expression for a list of numbers, as programs print bytes."""
_APART = rb"(?:[:.,;_=|/+#$\-]?[ \t\r\n]{0,16})"
_PAIRS = rb"[0-9A-Fa-f]{2}(?:" + _APART + rb"[0-9A-Fa-f]{2}){7,}"
"""An expression for hexadecimal digits with separators between bytes, or between groups of bytes."""
LEAST_ENCODED = (
    rb"[A-Za-z0-9+/_\-]{24}|(?:" + _NUMBER.replace(rb"\b", b"") + rb"[,;.|/+:_\- \t\r\n]+){7}[0-9]|"
    rb"[0-9A-Fa-f]{2}(?:" + _APART + rb"[0-9A-Fa-f]{2}){7}|" + DUMP
)
"""An expression that matches every text with a run, a list or a dump."""
_PREFILTER = Prefilter((
    r"[A-Za-z0-9+/_\-]{24}",
    r"[0-9A-Fa-fxX:.,;_=|/+#$\- \t\r\n]{16}",
    r"[0-9][0-9A-Fa-f]{3,15}[:|>]?[ \t|]{1,8}[0-9A-Fa-f]{2}",
))  # fmt: skip
"""If `LEAST_ENCODED` matches a text, at least one of these expressions matches too. The exception is a list of eight
single digits, which contains no text."""
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_MARKED = bytes(120 if byte in _ALPHABET else 32 for byte in range(256))
LEAST_RUN = 24
"""Minimum length of a run of encoded characters, unless a watched secret is short."""
_LEAST_BINARY_RUN = 96
"""From this length on, a run is decoded even if it does not begin with text, since text may follow later."""
_BETWEEN = re.compile(rb"[,;.|/+:_\- \t\r\n]")
_AS_BLANKS = bytes.maketrans(b",;.|/+:_-", b" " * 9)
_PAIR_SEPARATORS = b":.,;_=|/+#$- \t\r\n"
_OCTAL_LIST = b"01234567,;.|/+:_- \t\r\n"
_CONTROLS = bytes((*range(33), 127))
_MOST_OF_WIDE = 3
"""A text is also read without zero bytes if at least one byte in this many is zero, as in UTF-16 and UTF-32."""
_LEAST_TEXT = 6
"""Minimum number of visible characters in a list that is searched."""
_CONTINUED = 4
"""Minimum number of characters in a line that continues a run."""
_PROBE = 32
"""Number of characters of a run that are decoded first. A short run is decoded completely only if these are text."""
_HEX_RUN = re.compile(rb"[0-9A-Fa-f]{16,}")
_BASE32_RUN = re.compile(rb"[0-9A-Z]{12,}|[0-9a-z]{12,}")
_AS_STANDARD = bytes.maketrans(b"-_", b"+/")
_DIGITS = b"0123456789abcdefghijklmnopqrstuv"
_BASE32 = tuple(
    bytes.maketrans(alphabet.lower() + alphabet, _DIGITS * 2)
    for alphabet in (
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        b"0123456789ABCDEFGHIJKLMNOPQRSTUV",
        b"0123456789ABCDEFGHJKMNPQRSTVWXYZ",
    )
)
"""Tables that convert the alphabets of RFC 4648, sections 6 and 7, and of Crockford to digits of base 32."""
_PRINTABLE = bytes(range(32, 127)) + b"\t\r\n"
_CONTROL_CHARACTER = rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]"
"""An expression that matches compressed bytes that were encoded as the characters U+0000 to U+00FF in UTF-8."""
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
_WIDE = _PRINTABLE + b"\0\xff\xfe"
"""The bytes of printable text in UTF-16. The normal form drops the zero bytes."""


@lru_cache(maxsize=8)
def _compile_on_first_use(expression: bytes) -> Any:
    return compile_linear(expression)


def may_hold_encoded(data: bytes) -> bool:
    """Return quickly whether a text may contain a run, a list or a dump."""
    if len(data) >= LARGE_BYTES and _PREFILTER.rules_out(data):
        return False
    return _compile_on_first_use(LEAST_ENCODED).search(data) is not None


class Decoded(NamedTuple):
    """The content of the encoded text from `start` to `end`."""

    start: int
    end: int
    data: bytes
    sound: bool
    """False if the content looks random. Then the text was probably not encoded: any long word is also some base64."""


def decode(
    data: bytes, budget: DecodeBudget, *, runs: bool = True, least_run: int = LEAST_RUN, every: bool = False,
    known_runs: Container[bytes] = (),
) -> Iterator[Decoded]:  # fmt: skip
    """Yield encoded content: archives, and with `runs` base64, base32, hex and lists of numbers.

    Short runs and lists that decode to random bytes are left out, unless `every` is set. `known_runs` are always left
    out.
    """
    if runs:
        for found in _decode_readable(data, budget, least_run, every=every, known_runs=known_runs):
            if budget.charge(len(found.data)):
                yield found
    for narrow in _iter_narrow(data):
        if budget.charge(len(narrow)):
            sound = len(narrow) >= _LEAST_TEXT and not narrow.translate(None, _PRINTABLE)
            yield Decoded(0, len(data), narrow, sound)
    yield from (Decoded(start, len(data), inner, sound) for start, inner, sound in find_archives(data, budget))


def _iter_narrow(data: bytes) -> Iterator[bytes]:
    """Yield other readings of a text.

    A text that may be UTF-16 or UTF-32 is read without zero bytes. A text whose characters may each stand for one byte
    is read as these bytes.
    """
    if b"\0" in data and (zeros := data.count(0)) < len(data) <= zeros * _MOST_OF_WIDE:
        yield data.translate(None, b"\0")
        body = data[2:] if data[:2] in _BYTE_ORDER_MARKS else data
        for at in (0, 1):
            if not body[1 - at :: 2].strip(b"\0"):
                yield body[at::2]
    if not data.isascii():
        with contextlib.suppress(UnicodeError):
            narrow = data.decode().encode("latin-1")  # fails early if the text is something else
            if _compile_on_first_use(_CONTROL_CHARACTER).search(data) is not None:
                yield narrow


def _decode_readable(
    data: bytes, budget: DecodeBudget, least_run: int, *, every: bool, known_runs: Container[bytes]
) -> Iterator[Decoded]:
    check = budget.check
    if may_hold_dump(data):
        yield from (Decoded(*found, sound=True) for found in decode_dumps(data, check))
        yield from (Decoded(*found, sound=False) for found in find_columns(data))
    for start, end, inner in _find_lists(data, check):
        sound = inner[:3] == GZIP or len(inner.translate(None, _CONTROLS)) >= _LEAST_TEXT
        if every or sound:
            yield Decoded(start, end, inner, sound)
    for start, end, digits in _find_pairs(data, check):
        sound = _is_text(bytes.fromhex(digits[:_PROBE].decode()))
        if every or sound:
            yield Decoded(start, end, bytes.fromhex(digits.decode()), sound)
        if not digits.strip(b"01"):
            bits = digits[: len(digits) // 8 * 8]
            yield Decoded(start, end, int(bits, 2).to_bytes(len(bits) // 8, "big"), sound=False)
    runs = [place for place in find_runs(data, least_run, check) if data[slice(*place)] not in known_runs]
    for start, end in runs:
        check()
        yield from (Decoded(start, end, *inner) for inner in _decode_run(data[start:end], every=every))
    if every:
        yield from (Decoded(*found, sound=False) for found in decode_inside(data, runs, budget))


def record_encoded(data: bytes, budget: DecodeBudget) -> None:
    """Record the encoded content of a text at the depth limit. This content is not searched."""
    peek = DecodeBudget(left=_PEEK_BYTES, check=budget.check)
    for found in decode(data, peek):
        if found.sound and len(set(found.data)) > 1:  # one repeated character holds no secret, however it is decoded
            budget.record_beyond(found.data)
    budget.exceeded = budget.exceeded or peek.exceeded


def find_runs(data: bytes, least: int, check: Check) -> Iterator[tuple[int, int]]:
    """Yield the places of runs of base64 or hex. A run is a long word, with the lines that continue it."""
    mark = b"x" * least
    for low in range(0, len(data), PIECE_BYTES):
        check()
        if mark in data[low : low + PIECE_BYTES + least - 1].translate(_MARKED):
            break
    else:
        return
    marked = data.translate(_MARKED)
    start = marked.find(mark, low)
    while start >= 0:
        end = marked.find(b" ", start)
        if end < 0:
            end = len(data)
        elif data[end] in b"\r\n" and (found := _compile_on_first_use(_RUN).match(data, start)) is not None:
            end = found.end()
        yield start, end
        start = marked.find(mark, end)


def _find_lists(data: bytes, check: Check) -> Iterator[tuple[int, int, bytes]]:
    """Yield the places and bytes of lists of decimal or hexadecimal numbers."""
    for match in _compile_on_first_use(_LIST).finditer(data):
        low, end = match.span()
        inner = bytearray()
        while low < end:
            check()
            gap = _BETWEEN.search(data, min(low + PIECE_BYTES, end), end)
            high = gap.start() if gap else end
            inner += _parse_numbers(data[low:high])
            low = high
        yield *match.span(), bytes(inner)
        if not match[0].translate(None, _OCTAL_LIST):
            numbers = (int(number, 8) for number in match[0].translate(_AS_BLANKS).split())
            yield *match.span(), bytes(number & 0xFF for number in numbers)


def _find_pairs(data: bytes, check: Check) -> Iterator[tuple[int, int, bytes]]:
    """Yield the places and digits of hexadecimal bytes with separators between them."""
    for match in _compile_on_first_use(_PAIRS).finditer(data):
        check()
        start, end = match.span()
        digits = data[start:end].translate(None, _PAIR_SEPARATORS)
        if len(digits) < end - start:
            yield start, end, digits


def _parse_numbers(numbers: bytes) -> bytes:
    """Convert numbers to bytes. Skip numbers that are too large, so that they cannot hide the other numbers."""
    words = numbers.translate(_AS_BLANKS).split()
    if b"x" in numbers or b"X" in numbers:
        return bytes(v for w in words if (v := int(w, 16 if w[1:2] in (b"x", b"X") else 10)) < 256)
    values = list(map(int, words))
    return bytes(values) if max(values, default=0) < 256 else bytes(v for v in values if v < 256)


def continues_run(lines: bytes | bytearray) -> bool:
    """Return whether all lines that follow a run are part of the run."""
    texts = (line.strip(b" \t\r") for line in lines.split(b"\n")[:-1])
    return all(text and not text.translate(None, _ALPHABET + b"=") for text in texts)


def find_unfinished_run(text: bytes) -> int:
    """Return the start of a run that the next line may continue, or the text's length if there is no such run."""
    start = end = len(text)
    if b"x" * LEAST_RUN not in text.translate(_MARKED):
        return end
    while text.endswith(b"\n", 0, end):
        stop = end - (2 if text.endswith(b"\r\n", 0, end) else 1)
        begin = text.rfind(b"\n", 0, stop) + 1
        line = text[begin:stop]
        before = line.rstrip(_ALPHABET + b"=")
        word = len(line) - len(before)
        if word >= LEAST_RUN:
            start = stop - word
        if word < _CONTINUED or before.strip(b" \t"):
            break
        end = begin
    return start


def _decode_run(run: bytes, *, every: bool) -> Iterator[tuple[bytes, bool]]:
    """Yield the content of a run in each base, and whether it is sound."""
    digits = run.translate(None, b" \t\r\n=")
    framed = len(digits) >= _LEAST_BINARY_RUN
    for inner in _decode_digits(digits):
        sound = _is_text(inner[:_PROBE])
        if sound or framed or (every and is_archive(inner)):
            yield inner, sound


def _decode_digits(digits: bytes) -> Iterator[bytes]:
    if _HEX_RUN.fullmatch(digits) is not None and len(digits) % 2 == 0:
        yield bytes.fromhex(digits.decode())
    if _BASE32_RUN.fullmatch(digits):
        for alphabet in _BASE32:
            written = digits.translate(alphabet)
            if not written.translate(None, _DIGITS):
                yield _decode_base32(written)
    standard = digits.translate(_AS_STANDARD)
    yield binascii.a2b_base64(standard[: len(standard) // 4 * 4] + _pad_tail(standard))


def _decode_base32(digits: bytes) -> bytes:
    """Decode base 32 with the digits 0 to 9 and a to v. An incomplete last byte is dropped."""
    bits = 5 * len(digits)
    return (int(digits, 32) >> bits % 8).to_bytes(bits // 8, "big")


def _pad_tail(standard: bytes) -> bytes:
    rest = standard[len(standard) // 4 * 4 :]
    return rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""


def _is_text(inner: bytes) -> bool:
    """Return whether content begins with printable text or with the magic number of an archive."""
    if inner.startswith(MAGIC):
        return True
    wide = b"\0" in inner[:2] or inner[:2] in _BYTE_ORDER_MARKS
    return not inner.translate(None, _WIDE if wide else _PRINTABLE)
