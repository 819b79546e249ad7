"""The patterns of a call's secrets: each secret in the encodings that a normal form does not undo.

In the normal form most ways to write a text look alike: lower case, and letters and digits only. White space, line
breaks, quotes, hyphens, zero-width characters and the difference between base64 and base64url vanish there. A secret is
then covered by itself, reversed, ROT13, hex, base64 at its three offsets, and the notations of `_bases`.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wasmrt.egress.leaks._bases import in_letters_and_digits, in_visible_characters
from wasmrt.egress.leaks._escapes import holds_escapes

_MIN_PATTERN = 8
_MIN_ALNUM = 12
"""A secret with fewer letters and digits is looked for with its punctuation."""
_CASELESS_FROM = 16
"""From this length on a match in another case is no accident."""

_ALNUM = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ROT13 = bytes.maketrans(_ALNUM[10:], _ALNUM[23:36] + _ALNUM[10:23] + _ALNUM[49:] + _ALNUM[36:49])
NOT_ALNUM = bytes(b for b in range(256) if b not in _ALNUM)
SEPARATORS = bytes(range(33)) + b"\"'`-\\" + bytes(range(127, 256))
NOT_VISIBLE = bytes(range(33)) + bytes(range(127, 256))


class Pattern(NamedTuple):
    """One encoding of one secret, in its normal form."""

    name: str
    """The secret's name."""
    text: bytes
    """In lower case, without the bytes that its form drops."""
    cased: bytes | None
    """The same in the secret's own case, where case tells the secret from a word."""
    secret: bytes | None = None
    """The whole secret where `text` is all of it but dropped bytes, which may be its ends."""

    @property
    def exact(self) -> bytes | None:
        """The text to look for in its own case; None where a match in another case is no accident."""
        return self.cased if len(self.text) < _CASELESS_FROM else None


class Patterns(NamedTuple):
    """The patterns of some secrets, by the form in which they are looked for."""

    alnum: tuple[Pattern, ...]
    """Looked for among letters and digits."""
    loose: tuple[Pattern, ...]
    """Looked for without `SEPARATORS` alone, since they have few letters and digits."""
    visible: tuple[Pattern, ...]
    """Looked for without what is not visible alone: bases whose digits are punctuation too."""
    verbatim: tuple[tuple[str, bytes], ...]
    """Names and values of secrets that are too short for any normal form."""
    hold_escapes: bool
    """True where a secret would be changed by undoing escapes."""


def patterns_of(secrets: Iterable[tuple[str, str]]) -> Patterns:
    """Write each secret in every encoding."""
    alnum: list[Pattern] = []
    loose: list[Pattern] = []
    visible: list[Pattern] = []
    verbatim: list[tuple[str, bytes]] = []
    escaped = False
    for name, value in secrets:
        raw = value.encode("utf-8", "surrogatepass")
        escaped = escaped or holds_escapes(raw)
        plain = raw.translate(None, NOT_ALNUM)
        if len(plain) >= _MIN_ALNUM:
            alnum += (*_reversed(name, plain, raw), _rot13(name, plain))
        elif len(tight := raw.translate(None, SEPARATORS)) >= _MIN_PATTERN:
            loose += (*_reversed(name, tight, raw), _rot13(name, tight))
        else:
            verbatim += ((name, raw), (name, raw.translate(_ROT13)))
        if len(raw) >= _MIN_PATTERN:
            alnum.append(Pattern(name, raw.hex().encode(), None))
            alnum += (Pattern(name, e.lower(), e) for e in _base64(raw) if len(e) >= _MIN_PATTERN)
            alnum += (Pattern(name, e, None) for e in in_letters_and_digits(raw) if len(e) >= _MIN_ALNUM)
            visible += (Pattern(name, e.lower(), None) for e in in_visible_characters(raw))
    return Patterns(tuple(alnum), tuple(loose), tuple(visible), tuple(verbatim), escaped)


def _reversed(name: str, plain: bytes, secret: bytes) -> tuple[Pattern, Pattern]:
    """Return the pattern forwards and backwards."""
    cased = None if plain in (plain.lower(), plain.upper()) else plain
    return (
        Pattern(name, plain.lower(), cased, secret),
        Pattern(name, plain.lower()[::-1], cased and cased[::-1]),
    )


def _rot13(name: str, plain: bytes) -> Pattern:
    turned = plain.translate(_ROT13)
    return Pattern(name, turned.lower(), None if turned in (turned.lower(), turned.upper()) else turned)


def _base64(raw: bytes) -> Iterator[bytes]:
    """Yield base64 of the secret inside any text, at its three offsets, without characters that encode other bytes."""
    for offset, shared in ((0, 0), (1, 2), (2, 3)):
        encoded = b2a_base64(bytes(offset) + raw, newline=False)
        whole = encoded if (offset + len(raw)) % 3 == 0 else encoded.rstrip(b"=")[:-1]
        yield whole[shared:].translate(None, NOT_ALNUM)
