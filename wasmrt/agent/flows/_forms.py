"""Convert texts to normal forms, to find a value regardless of its spelling.

SECURITY: these forms are for untrusted text and ignore as many differences as possible, so that no spelling hides a
value. User text is compared strictly instead, so that a look-alike does not match (`_user_text`).
"""

from __future__ import annotations

import html
import posixpath
import re
import sys
import unicodedata
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from urllib.parse import unquote

from wasmrt.agent.flows._encodings import CAPITALS, CONFUSABLES, decode_braille, decode_words
from wasmrt.core.normal_form import split_text

MIN_SQUEEZED = 8
"""Minimum length of a value that may match inside a word. Shorter values must match a complete word."""
_ROUNDS = 4
_BLOCK_CHARS = 4_096
_LONGEST_BLOCK = 5_760 * 2
"""A multiple of the lengths of groups in encoded text."""
_OVERLAP_CHARS = 512
_BETWEEN_WORDS = re.compile(r"[^\w+/=%.@-]")
_MAX_NUMBER = 60
"""Maximum length of the text of a number."""
_ESCAPED = re.compile(
    r"%(?:[0-9a-f]{2}|u[0-9a-f]{4})|&#\d{2,7}|&#x[0-9a-f]{2,8}|&[a-z0-9]{2,32};|\\u(?:[0-9a-f]{4}|\{)|\\x[0-9a-f]{2}"
    r"|\\[0-3][0-7]{2}|(?:\\[0-9a-f]{2,6} ?){3}|\bu\+[0-9a-f]{4}|xn--|=[0-9a-f]{2}",
    re.I,
)
_ESCAPES = ("%", "&", "\\", "=", "xn--", "u+", "U+")
_UNICODE_ESCAPE = re.compile(
    r"\\u(000[01][0-9a-f]{4})|\\u\{0{0,4}([0-9a-f]{1,6})\}|(?:\\u|%u)([0-9a-f]{4})|\bu\+([0-9a-f]{4,6}) ?"
    r"|\\x([0-9a-f]{2})|=([0-9a-f]{2})",
    re.I,
)
_EXCEPT_QUOTED_PRINTABLE = re.compile(_UNICODE_ESCAPE.pattern.rpartition("|=")[0], re.I)
_OCTAL = re.compile(r"\\([0-3][0-7]{2})")
_CSS = re.compile(r"(?:\\[0-9a-f]{2,6} ?){3,}", re.I)
_CSS_ONE = re.compile(r"\\([0-9a-f]{2,6}) ?", re.I)
_TURNED = re.compile("\u202e([^\u202c\u202d\n]{1,2000})")
"""Text that is displayed from right to left, so that its characters are stored in reverse order."""
_IN_TAGS = re.compile(r"(?:[^\s<>]{1,200}(?:<[^<>]{1,200}>){1,8}){1,40}[^\s<>]{1,200}")
_TAG = re.compile(r"<[^<>]{1,200}>")
_RUN_ON = re.compile(r"(?<=[a-z0-9])(?:AT|DOT)(?=[a-z0-9])")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CLIMBS = re.compile(r"[\w./~-]{1,200}/\.\.?/[\w./-]{1,200}")
_PUNYCODE = re.compile(r"xn--([a-z0-9-]{1,59})", re.I)
_BRAILLE = re.compile("[\u2801-\u28ff]")
_AT_WORDS = """
    at et ät arroba arobase chiocciola klammeraffe apenstaartje snabel-a krøllalfa małpa malpa zavináč zavinac kukac
    arond miukumauku παπάκι собака собачка равлик маймунка שטרודל آت एट ऐट
"""
_DOT_WORDS = """
    dot point punto ponto punkt punktum punt kropka tečka tecka bodka pont nokta punct piste chấm titik τελεία точка
    крапка נקודה نقطة डॉट
"""
_UNSPACED = "艾特 小老鼠 アットマーク アット 골뱅이", "点 點 ドット 닷 점"
"""Words for "at" and "dot" that are also written without blanks around them."""
_WORD = re.compile(r"[^\W_]+")
_APART = re.compile(r"[\W_]+")
_PIECES = re.compile(r"[\s/,;()<>\"'=&?\[\]{}|:@]+")
_NUMBER = re.compile(
    r"\d{1,3}(?:[ '’_.,·٬]\d{3})+(?:[.,٫]\d+)?|\d{1,3}(?:,\d{2}){1,5},\d{3}(?:\.\d+)?|\d+(?:[.,٫]\d+)?"
)
_DIGITS_AND_MARKS = re.compile(r"\d[\d '’_.,·٬٫]*")
"""Text that contains whole numbers. It is found faster than the numbers themselves."""
_PART = re.compile(r"\d+")
_SCALED = re.compile(
    r"\b(\d{1,12}(?:[.,]\d{1,12})?)(?:e\+?(\d{1,2})| ?(k|thousand|tsd|m|mio|mn|million|millions|bn|billion|billions))\b"
)
_SCALES = {"k": 3, "thousand": 3, "tsd": 3, "bn": 9, "billion": 9, "billions": 9}
_HEXADECIMAL = re.compile(r"\b0x([0-9a-f]{1,12})\b")
_CURRENCY = re.compile(r"(?:[a-z]{3}|[$€£¥])?\s?([\d '’_.,+-]{1,40}?)\s?(?:[a-z]{3}|[$€£¥])?")
_SEPARATORS = re.compile(r"[ '’_·٬]")
_ASCII_APART = bytes(code for code in range(128) if not chr(code).isalnum())
_SPACED, _BLANKED, _IN_PIECES = (
    bytes(0x20 if chr(code).isspace() or chr(code) in apart else code for code in range(256))
    for apart in (_ASCII_APART.decode(), "", "/,;()<>\"'=&?[]{}|:@")
)
"""Tables that replace separators with blanks."""
_FIRST = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)} | CAPITALS
"""Replacements before case folding, for invisible tag characters (Unicode 16.0, section 23.9) and capital letters."""


def make_skeleton(text: str) -> str:
    """Return a text in lower case, without accents, and with look-alike characters of other scripts replaced."""
    if text.isascii():
        return text.lower()
    return "".join(map(_make_skeleton, split_text(text)))


def _make_skeleton(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.translate(_FIRST)).casefold()
    return unicodedata.normalize("NFKD", plain).translate(CONFUSABLES)


def _spell_out(words: str, unspaced: str) -> str:
    one, other = ("|".join(map(re.escape, make_skeleton(each).split())) for each in (words, unspaced))
    return rf"(?<![^\W_])(?:{one})(?![^\W_])|{other}"


AT_WORD, DOT_WORD = map(_spell_out, (_AT_WORDS, _DOT_WORDS), _UNSPACED)
"""Expressions for "at" and "dot" in a skeleton, in the most spoken languages that spell addresses out."""
_AT_OR_DOT = re.compile(f"{AT_WORD}|{DOT_WORD}")
_SPELLED = frozenset(make_skeleton(f"{_AT_WORDS} {_DOT_WORDS}").split())
_SPELLED_BYTES = frozenset(word.encode() for word in _SPELLED)
_IRREGULAR = (*make_skeleton(" ".join(_UNSPACED)).split(), *(word for word in _SPELLED if not word.isalnum()))
"""Words whose boundaries `_WORD` does not find."""


def _has_escape(text: str) -> bool:
    """Return whether a text contains an escape sequence."""
    return any(mark in text for mark in _ESCAPES) and _ESCAPED.search(text) is not None


def decode_escapes(text: str, *, quoted_printable: bool = True) -> str:
    """Decode percent, HTML, Unicode and Punycode escapes in a skeleton, including nested escapes."""
    unicode_escape = _UNICODE_ESCAPE if quoted_printable else _EXCEPT_QUOTED_PRINTABLE
    for _ in range(_ROUNDS):
        if not _has_escape(text):
            break
        before, text = text, html.unescape(unquote(text))
        text = _CSS.sub(_decode_css, _OCTAL.sub(_decode_octal, unicode_escape.sub(_decode_escape, text)))
        if _SURROGATE.search(text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        text = make_skeleton(_PUNYCODE.sub(_decode_punycode, text))
        if text == before:
            break
    return text


def split_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Divide a text into short blocks. Yield each block twice: alone, and with the beginning of the next block.

    SECURITY: matching a regular expression is one C call that holds the GIL. Expressions are therefore applied to
    single blocks. A block ends at white space if possible, else between two encoded words. In a longer run of letters,
    a block ends at a whole number of encoded bytes.
    """
    start, length = 0, len(text)
    while length - start > 2 * _BLOCK_CHARS:
        low, high = start + _BLOCK_CHARS, start + 2 * _BLOCK_CHARS
        end = max(text.rfind("\n", low, high), text.rfind(" ", low, high)) + 1
        if not end:
            found = _BETWEEN_WORDS.search(text, low, start + _LONGEST_BLOCK)
            end = found.end() if found else min(length, start + _LONGEST_BLOCK)
        wider = text.rfind(" ", end + 1, end + _OVERLAP_CHARS)
        yield text[start:end], text[start : wider if wider > 0 else end + _OVERLAP_CHARS]
        start = end
    yield text[start:], text[start:]


def iter_readings(text: str) -> Iterator[str]:
    """Yield the skeletons of a text: as it is, with decoded words and lines, and in its other readings.

    A long text is read in blocks.
    """
    for _, block in split_blocks(text):
        yield from iter_block_readings(block)


def iter_block_readings(text: str) -> Iterator[str]:
    """Yield each text that one block can be read as; the first is its skeleton."""
    plain = make_skeleton(text)
    yield plain
    for word in decode_words(text):
        for each in (word, *decode_words(word)):
            yield from dict.fromkeys((make_skeleton(each), *iter_decoded(make_skeleton(each))))
    for reading in _iter_other_readings(text):
        yield make_skeleton(reading)
    if _has_escape(plain):
        for line in plain.splitlines():
            yield from iter_decoded(line)


def iter_decoded(text: str) -> Iterator[str]:
    """Yield the forms of a skeleton without escapes. In `?id=12`, the text after "=" is probably not an escape."""
    if not _has_escape(text):
        return
    found = {text}
    for quoted_printable in (True, False):
        reading = decode_escapes(text, quoted_printable=quoted_printable)
        if reading not in found:
            found.add(reading)
            yield reading


def _iter_other_readings(text: str) -> Iterator[str]:
    """Yield words without markup inside, text in its displayed direction, and normalized paths."""
    if "<" in text:
        yield from (_TAG.sub("", found[0]) for found in _IN_TAGS.finditer(text))
    if "\u202e" in text:
        yield from (found[1][::-1] for found in _TURNED.finditer(text))
    if "AT" in text:
        yield from (_RUN_ON.sub(" ", line) for line in text.splitlines() if _RUN_ON.search(line))
    if not text.isascii() and _BRAILLE.search(text):
        yield decode_braille(text)
    if "/." in text:
        yield from (posixpath.normpath(found[0]) for found in _CLIMBS.finditer(text))


def squeeze(plain: str) -> bytes:
    """Return the letters and digits of a skeleton, without the separate words "at" and "dot" in several languages."""
    if any(each in plain for each in _IRREGULAR):
        return _APART.sub("", _AT_OR_DOT.sub(" ", plain)).encode("utf-8", "replace")
    if plain.isascii():
        return b"".join([word for word in plain.encode().translate(_SPACED).split() if word not in _SPELLED_BYTES])
    return "".join([word for word in _WORD.findall(plain) if word not in _SPELLED]).encode("utf-8", "replace")


def find_short_words(plain: str) -> set[bytes]:
    """Return the words of a skeleton that are too short to match inside words.

    They include short texts with punctuation, such as a host, without the punctuation.
    """
    if plain.isascii():
        data = plain.encode()
        runs = set(data.translate(_SPACED).split())
        parts = {*data.translate(_BLANKED).split(), *data.translate(_IN_PIECES).split()}
        runs |= {part.translate(None, _ASCII_APART) for part in parts
                 if len(part) < 2 * MIN_SQUEEZED and not part.isalnum()}  # fmt: skip
        return {run for run in runs if 0 < len(run) < MIN_SQUEEZED}
    words = set(_WORD.findall(plain))
    pieces = {run for run in {*plain.split(), *_PIECES.split(plain)} if len(run) < 2 * MIN_SQUEEZED}
    words |= {_APART.sub("", run) for run in pieces if not run.isalnum()}
    return {word.encode("utf-8", "replace") for word in words if 0 < len(word) < MIN_SQUEEZED}


def find_numbers(plain: str) -> set[str]:
    """Return the numbers in a skeleton, for each possible meaning of their separators, and the parts of the numbers."""
    written = {number for part in _DIGITS_AND_MARKS.findall(plain) for number in _NUMBER.findall(part)}
    found = {reading for each in written for reading in _interpret_as_numbers(each)}
    parts = {part for each in written if not each.isdigit() for part in _PART.findall(each)}
    found |= {reading for part in parts if (reading := _normalize_number(part)) is not None}
    for size, power, scale in _SCALED.findall(plain) if parts or found else ():
        scaled = f"{size.replace(',', '.')}e{power or _SCALES.get(scale, 6)}"
        found |= {reading for reading in (_normalize_number(scaled),) if reading is not None}
    return found if "0x" not in plain else found | {str(int(found[1], 16)) for found in _HEXADECIMAL.finditer(plain)}


def parse_amount(value: object) -> str | None:
    """Return the normalized number of an amount, without sign and currency; None if the value is not an amount."""
    if isinstance(value, str) and len(value) <= 40:
        plain = make_skeleton(value).strip()
        if found := _HEXADECIMAL.fullmatch(plain):
            return str(int(found[1], 16))
        if found := _CURRENCY.fullmatch(plain):
            value = found[1].strip()
    normal = parse_number(value)
    return None if normal is None else normal.removeprefix("-")


def parse_number(value: object) -> str | None:
    """Return a number in its normal form, which is the same for 1000, 1e3 and "1,000.00"; None for other values."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return _normalize_number(repr(value))
    if isinstance(value, str) and len(value) <= 40:
        text = make_skeleton(value).strip().strip("$€£¥ ").strip()
        if _NUMBER.fullmatch(text):
            return _read_likely_number(text)
        return _normalize_number(text) if re.fullmatch(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d{1,2})?", text) else None
    return None


def find_likely_numbers(plain: str) -> set[str]:
    """Return the numbers in a text with their most likely meaning: three digits after a separator mean thousands."""
    return {found for text in _NUMBER.findall(plain) if (found := _read_likely_number(text)) is not None}


@lru_cache(maxsize=512)
def value_forms(value: str) -> tuple[bytes, ...]:
    """Return the squeezed forms of a value: of the value itself, without escapes, and without the tag of an address."""
    plain = make_skeleton(value)
    if not _has_escape(plain) and "+" not in plain:
        return (squeeze(plain) or plain.encode("utf-8", "replace"),)
    found = (squeeze(plain), squeeze(decode_escapes(plain)), squeeze(_without_plus(decode_escapes(plain))))
    return tuple(dict.fromkeys(form for form in found if form))


def _decode_escape(found: re.Match[str]) -> str:
    return _to_char(next(digits for digits in found.groups() if digits), 16)


def _decode_octal(found: re.Match[str]) -> str:
    return _to_char(found[1], 8)


def _decode_css(found: re.Match[str]) -> str:
    return _CSS_ONE.sub(lambda one: _to_char(one[1], 16), found[0])


def _to_char(digits: str, base: int) -> str:
    code = int(digits, base)
    return chr(code) if code <= sys.maxunicode else ""


def _decode_punycode(found: re.Match[str]) -> str:
    try:
        return found[1].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return found[0]


def _without_plus(text: str) -> str:
    """Return an address without the tag after the plus sign in its local part (RFC 5233)."""
    return re.sub(r"\+[^@\s]*@", "@", text)


def _interpret_as_numbers(text: str) -> set[str]:
    bare = _SEPARATORS.sub("", text).replace("٫", ".")
    spelled = {bare.replace(",", ""), bare.replace(".", ""), bare.replace(".", "").replace(",", ".")}
    spelled |= {bare.replace(",", "").replace(".", ""), bare.replace(",", ".")}
    return {found for each in spelled if (found := _normalize_number(each)) is not None}


def _read_likely_number(text: str) -> str | None:
    bare = _SEPARATORS.sub("", text).replace("٫", ".")
    marks = [mark for mark in bare if mark in ".,"]
    if len(set(marks)) == 2:
        last = marks[-1]
        return _normalize_number(bare.replace("," if last == "." else ".", "").replace(",", "."))
    if marks and (len(marks) > 1 or (len(bare.rpartition(marks[0])[2]) == 3 and not bare.startswith("0"))):
        return _normalize_number(bare.replace(marks[0], ""))
    return _normalize_number(bare.replace(",", "."))


def _normalize_number(text: str) -> str | None:
    if len(text) > _MAX_NUMBER:
        return None
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    if not found.is_finite() or abs(found.adjusted()) > 40:
        return None
    return format(found.normalize(), "f")
