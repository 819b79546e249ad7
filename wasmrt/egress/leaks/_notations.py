"""Write a secret in the notations that a search for its plain text or its base64 would not find."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Iterator
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase, digits

_STANDARD = (ascii_uppercase + ascii_lowercase + digits + "+/").encode()
_UUENCODE = bytes((96, *range(33, 96)))
_AS_UUENCODE = bytes.maketrans(_STANDARD, _UUENCODE)
_BASE85 = (digits + ascii_uppercase + ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~").encode()
_Z85 = (digits + ascii_lowercase + ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#").encode()
_AS_Z85 = bytes.maketrans(_BASE85, _Z85)
_WORD = 4
_MOST_AS_NUMBER = 256
"""Maximum size of a secret that is also searched as one number, since the conversion takes quadratic time."""
_BASE58 = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_NUMBER_DIGITS = (
    (digits + ascii_lowercase).encode(),
    _BASE58,
    _BASE58[:9] + _BASE58[33:] + _BASE58[9:33],
    (digits + ascii_uppercase + ascii_lowercase).encode(),
    (ascii_uppercase + ascii_lowercase + digits).encode(),
)
"""The digits of base 36, of base 58 (Bitcoin's alphabet and Flickr's), and of base 62 with digits or letters first."""
_ROT47 = bytes.maketrans(bytes(range(33, 127)), bytes((*range(80, 127), *range(33, 80))))
_ROT5 = bytes.maketrans(b"0123456789", b"5678901234")
_ROT13 = bytes.maketrans(
    (ascii_uppercase + ascii_lowercase).encode(),
    (ascii_uppercase[13:] + ascii_uppercase[:13] + ascii_lowercase[13:] + ascii_lowercase[:13]).encode(),
)
_ATBASH = bytes.maketrans(
    (ascii_uppercase + ascii_lowercase).encode(), (ascii_uppercase[::-1] + ascii_lowercase[::-1]).encode()
)
_BITS_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_NIBBLES_SWAPPED = bytes((byte >> 4 | byte << 4) & 0xFF for byte in range(256))
_AS_Z_BASE32 = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"ybndrfg8ejkmcpqxot1uwisza345h769")
_INVERTED = bytes(range(255, -1, -1))
_BYTE_NOTATIONS: tuple[Callable[[int], str], ...] = (
    *(notation.format for notation in (
        "{:d}", "{:03d}", "{:d}0", "0x{:02x}", "x{:02x}", "h{:02x}", "{:02x}h", "16{:02x}", "u{:04x}", "u{:x}",
        "{:06x}", "{:o}", "{:03o}", "0o{:o}", "{:08b}", "{:07b}", "0b{:b}", "0b{:08b}", "chr{:d}", "chr0x{:02x}",
        "char{:d}",
    )),
    lambda byte: str(256 - byte),
)  # fmt: skip
"""Notations of a byte without separators: decimal, hexadecimal, as a code point, octal, binary, and in programs."""


def encode_as_letters_and_digits(raw: bytes) -> Iterator[bytes]:
    """Yield the notations of `raw` that consist of letters and digits once separators are removed.

    Each byte of `raw` becomes a number: `97, 98`, `97|98` and `&#97;&#98;` are equal without separators, and so are
    `\\u0061\\u0062`, `U+0061 U+0062` and `%u0061%u0062`.
    """
    for written in _list_byte_notations():
        yield b"".join(map(written.__getitem__, raw)).lstrip(b"0")  # also found as one number, without leading zeros
    for other in (_INVERTED, _BITS_REVERSED):
        yield b"".join(map(_list_byte_notations()[_BINARY].__getitem__, raw.translate(other)))
    yield raw.hex().encode()[::-1]
    yield raw.translate(_NIBBLES_SWAPPED).hex().encode()
    yield swap_bytes(raw, 2).hex().encode()
    for inside in _iter_base32(raw):
        yield from (inside, inside.translate(_AS_Z_BASE32))
    for inside in base64_at_offsets(raw):
        yield from (inside[::-1], inside.translate(_ROT13))
    yield from (inside[::-1] for inside in base64_at_offsets(raw[::-1]))
    yield from base64_at_offsets(raw.decode("utf-8", "replace").encode("utf-16-be"))
    yield raw.translate(_ATBASH)
    if (turned := raw.translate(_ROT5)) != raw:  # equal without digits; the secret itself is case-sensitive
        yield from (turned, turned.translate(_ROT13))
    yield swap_bytes(raw, 2)
    if len(raw) <= _MOST_AS_NUMBER:
        yield from (b"%d" % int.from_bytes(raw, order) for order in ("big", "little"))
        yield b"%o" % int.from_bytes(raw, "big")
        yield from (_write_in_base(raw, number_digits) for number_digits in _NUMBER_DIGITS)


def encode_as_visible_characters(raw: bytes) -> Iterator[bytes]:
    """Yield the notations of `raw` that may contain any visible character, so that only white space can be ignored."""
    from base64 import a85encode, b85encode  # the import takes 0.5 ms, and is not needed without secrets

    for offset in range(_WORD):
        words = raw[-offset % _WORD :]
        words = words[: len(words) // _WORD * _WORD]
        if len(words) >= 2 * _WORD:
            base85 = b85encode(words)
            yield from (a85encode(words), base85, base85.translate(_AS_Z85))
    yield raw.translate(_ROT47)
    for inside in base64_at_offsets(raw):
        written = inside.translate(_AS_UUENCODE)
        yield from (written, written.replace(b"`", b""))  # some programs write a blank instead of "`"


def encode_as_bytes(raw: bytes) -> Iterator[bytes]:
    """Yield `raw` in notations that replace each byte by another byte: inverted, yEnc, EBCDIC, its halves swapped."""
    yield raw.translate(_INVERTED)
    yield raw.translate(_BITS_REVERSED)
    yield bytes((byte + 42) & 0xFF for byte in raw)
    yield raw.translate(_NIBBLES_SWAPPED)
    yield raw.decode("latin-1").encode("cp500", "replace")


def base64_at_offsets(raw: bytes) -> Iterator[bytes]:
    """Yield the base64 of `raw` inside a text, for all three offsets modulo 3.

    Characters that also depend on adjacent bytes are left out.
    """
    for offset, shared in ((0, 0), (1, 2), (2, 3)):
        encoded = b2a_base64(bytes(offset) + raw, newline=False)
        whole = encoded if (offset + len(raw)) % 3 == 0 else encoded.rstrip(b"=")[:-1]
        yield whole[shared:]


def _iter_base32(raw: bytes) -> Iterator[bytes]:
    """Yield the base32 of `raw` inside a text, for all five offsets modulo 5."""
    from base64 import b32encode

    for offset, shared in ((0, 0), (1, 2), (2, 4), (3, 5), (4, 7)):
        encoded = b32encode(bytes(offset) + raw)
        yield (encoded if (offset + len(raw)) % 5 == 0 else encoded.rstrip(b"=")[:-1])[shared:]


def swap_bytes(content: bytes, word: int) -> bytes:
    """Return the bytes of little-endian words, as `od -x` and `hexdump` print them, in their original order."""
    whole = len(content) // word * word
    swapped = bytearray(whole)
    for at in range(word):
        swapped[at::word] = content[word - 1 - at : whole : word]
    return bytes(swapped) + content[whole:]


_BINARY = 14


@lru_cache(maxsize=1)
def _list_byte_notations() -> tuple[tuple[bytes, ...], ...]:
    """Return all 256 bytes in each notation."""
    return tuple(tuple(write(byte).encode() for byte in range(256)) for write in _BYTE_NOTATIONS)


def _write_in_base(raw: bytes, number_digits: bytes) -> bytes:
    number, written = int.from_bytes(raw, "big"), bytearray()
    while number:
        number, rest = divmod(number, len(number_digits))
        written.append(number_digits[rest])
    return bytes(reversed(written))
