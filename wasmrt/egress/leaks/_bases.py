"""A secret in the bases and notations that a text may hold it in, at every offset that the text around it may give."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

_BASE85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_AS_Z85 = bytes.maketrans(_BASE85, _Z85)
_WORD = 4
_MOST_AS_NUMBER = 256
"""Bytes of a secret that is also written as one number: that takes the square of its length."""
_NUMBER_DIGITS = (
    b"0123456789abcdefghijklmnopqrstuvwxyz",
    b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
)
"""Base 36, base 58 (Bitcoin's alphabet), and base 62 with the digits first."""
_ROT47 = bytes.maketrans(bytes(range(33, 127)), bytes((*range(80, 127), *range(33, 80))))


def in_letters_and_digits(raw: bytes) -> Iterator[bytes]:
    """Yield notations of letters and digits, in lower case, in which marks between them do not count.

    Numbers stand for the bytes of `raw`: `97, 98`, `97|98` and `&#97;&#98;` are all one text without their marks,
    and so are `\\u0061\\u0062`, `U+0061 U+0062` and `%u0061%u0062`.
    """
    for written in _notations():
        yield b"".join(map(written.__getitem__, raw))
    if len(raw) <= _MOST_AS_NUMBER:
        yield b"%d" % int.from_bytes(raw, "big")
        yield from (_in_base(raw, digits).lower() for digits in _NUMBER_DIGITS)


def in_visible_characters(raw: bytes) -> Iterator[bytes]:
    """Yield notations of any visible characters, in which only white space between them does not count."""
    from base64 import a85encode, b85encode  # half a millisecond, and a process without secrets needs neither

    for offset in range(_WORD):
        words = raw[-offset % _WORD :]
        words = words[: len(words) // _WORD * _WORD]
        if len(words) >= 2 * _WORD:
            base85 = b85encode(words)
            yield from (a85encode(words), base85, base85.translate(_AS_Z85))
    yield raw.translate(_ROT47)


@lru_cache(maxsize=1)
def _notations() -> tuple[tuple[bytes, ...], ...]:
    """Write every byte as a number: decimal, hexadecimal, as a code point, octal, binary."""
    formats = ("{:d}", "{:03d}", "0x{:02x}", "x{:02x}", "u{:04x}", "u{:x}", "{:o}", "{:03o}", "0o{:o}", "{:08b}")
    return tuple(tuple(notation.format(byte).encode() for byte in range(256)) for notation in formats)


def _in_base(raw: bytes, digits: bytes) -> bytes:
    number, written = int.from_bytes(raw, "big"), bytearray()
    while number:
        number, rest = divmod(number, len(digits))
        written.append(digits[rest])
    return bytes(reversed(written))
