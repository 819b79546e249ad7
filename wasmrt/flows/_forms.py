"""Forms of a text in which a value is found again, however it was written.

SECURITY: what a stranger's text holds is compared in the widest form, so that no spelling hides it. What the person
said is compared in the narrowest, so that a look-alike of it is not taken for it (`_said`).
"""

from __future__ import annotations

import base64
import html
import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from urllib.parse import unquote

from wasmrt.flows._confusables import CONFUSABLES

MIN_SQUEEZED = 8
"""Characters from which a value is looked for inside of words; a shorter one has to be a word."""
_ROUNDS = 4
_MAX_NUMBER = 60
"""Characters; what is longer is no amount of anything."""
_ESCAPED = re.compile(r"%[0-9a-f]{2}|&[#a-z0-9]{2,32};|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|xn--|=[0-9a-f]{2}", re.I)
_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-f]{4})|\\x([0-9a-f]{2})|=([0-9a-f]{2})", re.I)
_PUNYCODE = re.compile(r"xn--([a-z0-9-]{1,59})", re.I)
_SPELLED_OUT = re.compile(r"\b(?:at|dot)\b")
_WORD = re.compile(r"[^\W_]+")
_APART = re.compile(r"[\W_]+")
_PIECES = re.compile(r"[\s/,;()<>\"'=&?\[\]{}|:@]+")
_NUMBER = re.compile(r"\d{1,3}(?:[ '_.,]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?")
_PACKED = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_ASCII_APART = bytes(code for code in range(128) if not chr(code).isalnum())
_TAGS = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}
"""Invisible characters that stand for ASCII (Unicode 16.0, section 23.9)."""


def skeleton(text: str) -> str:
    """Return a text with one spelling for characters that look alike: compatible forms, case, marks, scripts."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text.translate(_TAGS)).casefold()
    return unicodedata.normalize("NFKD", plain).translate(CONFUSABLES)


def decoded(text: str) -> str:
    """Return a skeleton without percent, HTML, Unicode and punycode escapes, also where they stand in each other."""
    for _ in range(_ROUNDS):
        if not _ESCAPED.search(text):
            break
        before, text = text, html.unescape(unquote(text))
        text = _UNICODE_ESCAPE.sub(_escape, text)
        text = skeleton(_PUNYCODE.sub(_label, text))
        if text == before:
            break
    return text


def readings(text: str) -> Iterator[str]:
    """Yield the skeleton of a text, of its lines that hold escapes what they say, and of its packed words."""
    plain = skeleton(text)
    yield plain
    for said in _unpacked(text):
        yield decoded(skeleton(said))
    if _ESCAPED.search(plain):
        for line in plain.splitlines():
            if _ESCAPED.search(line) and (said := decoded(line)) != line:
                yield said


def squeezed(plain: str) -> bytes:
    """Return the letters and digits of a skeleton alone, without an `at` or a `dot` that stands by itself."""
    plain = _SPELLED_OUT.sub(" ", plain)
    if plain.isascii():
        return plain.encode().translate(None, _ASCII_APART)
    return _APART.sub("", plain).encode("utf-8", "replace")


def short_words(plain: str) -> set[str]:
    """Return the words of a skeleton that are too short to be looked for in words, and short runs such as a host."""
    words = {word for word in _WORD.findall(plain) if len(word) < MIN_SQUEEZED}
    runs = {_APART.sub("", run) for run in {*plain.split(), *_PIECES.split(plain)} if len(run) < 2 * MIN_SQUEEZED}
    return words | {run for run in runs if 0 < len(run) < MIN_SQUEEZED}


def numbers(plain: str) -> set[str]:
    """Return the numbers of a skeleton in every reading that their separators allow."""
    return {reading for found in set(_NUMBER.findall(plain)) for reading in _number_readings(found)}


def number(value: object) -> str | None:
    """Return a number in one spelling: 1000, 1e3, "1,000.00" are the same; None for what is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return _plain_number(repr(value))
    if isinstance(value, str) and len(value) <= 40:
        text = skeleton(value).strip().strip("$€£¥ ").strip()
        if _NUMBER.fullmatch(text):
            return _likely(text)
        return _plain_number(text) if re.fullmatch(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d{1,2})?", text) else None
    return None


def likely_numbers(plain: str) -> set[str]:
    """Return the numbers of a text in the reading that people mean: of three digits behind a sign, thousands."""
    return {found for text in _NUMBER.findall(plain) if (found := _likely(text)) is not None}


@lru_cache(maxsize=512)
def value_forms(value: str) -> tuple[bytes, ...]:
    """Return the squeezed forms in which a value may stand in a text: as it is, without escapes, without a tag."""
    plain = skeleton(value)
    if not _ESCAPED.search(plain) and "+" not in plain:
        return (squeezed(plain) or plain.encode("utf-8", "replace"),)
    found = (squeezed(plain), squeezed(decoded(plain)), squeezed(_without_plus(decoded(plain))))
    return tuple(dict.fromkeys(form for form in found if form))


def _unpacked(text: str) -> Iterator[str]:
    """Yield what the base64 and hexadecimal words of a text say (RFC 4648), where that is text."""
    for found in _PACKED.finditer(text):
        word = found[0].rstrip("=")
        for decode in (_from_hex, _from_base64):
            said = decode(word)
            if said is not None and said.isprintable():
                yield said
                break


def _from_hex(word: str) -> str | None:
    try:
        return bytes.fromhex(word).decode()
    except ValueError:
        return None


def _from_base64(word: str) -> str | None:
    try:
        padded = word.replace("-", "+").replace("_", "/") + "=" * (-len(word) % 4)
        return base64.b64decode(padded).decode()
    except ValueError:
        return None


def _escape(found: re.Match[str]) -> str:
    return chr(int(found[1] or found[2] or found[3], 16))


def _label(found: re.Match[str]) -> str:
    try:
        return found[1].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return found[0]


def _without_plus(text: str) -> str:
    """Return an address without the tag behind a plus in its local part (RFC 5233)."""
    return re.sub(r"\+[^@\s]*@", "@", text)


def _number_readings(text: str) -> set[str]:
    bare = re.sub(r"[ '_]", "", text)
    spelled = {bare.replace(",", ""), bare.replace(".", ""), bare.replace(".", "").replace(",", ".")}
    spelled |= {bare.replace(",", "").replace(".", ""), bare.replace(",", ".")}
    return {found for each in spelled if (found := _plain_number(each)) is not None}


def _likely(text: str) -> str | None:
    bare = re.sub(r"[ '_]", "", text)
    marks = [mark for mark in bare if mark in ".,"]
    if len(set(marks)) == 2:
        last = marks[-1]
        return _plain_number(bare.replace("," if last == "." else ".", "").replace(",", "."))
    if marks and (len(marks) > 1 or (len(bare.rpartition(marks[0])[2]) == 3 and not bare.startswith("0"))):
        return _plain_number(bare.replace(marks[0], ""))
    return _plain_number(bare.replace(",", "."))


def _plain_number(text: str) -> str | None:
    if len(text) > _MAX_NUMBER:
        return None
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    if not found.is_finite() or abs(found.adjusted()) > 40:
        return None
    return format(found.normalize(), "f")
