"""Find the addresses inside outgoing text: links, hosts, email addresses, account and telephone numbers.

SECURITY: a recipient's program may open an address in any spelling, such as `//evil.example/p`. Addresses are therefore
searched for in a text and in all its readings, and not only after `https://`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from wasmrt.agent.flows._forms import AT_WORD, DOT_WORD, iter_decoded, iter_readings

_REST = r"[^\s<>\"'`]"
_LOCAL, _END = r"[^\s@<>\"',;:()\\/]{1,64}@", r"[^\s@<>\"',;:()\\/]{1,253}\.[^\W\d_]{2,24}"
_PATH = rf"(?::\d{{1,5}})?(?:[/?#\\]{_REST}*)?"
_LINKS = re.compile(  # every repetition is bounded, to bound the time
    r"[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s<>\"'`]+|[^\s@<>\"',;:()]{1,64}@[^\s@<>\"',;:()]{1,253}\.[a-zA-Z]{2,24}"
    r"|\b(?:www\.)(?:[a-zA-Z0-9-]+\.)+[a-zA-Z]{2,24}(?:/[^\s<>\"'`]*)?"
)
"""Links that can be separated from the text around them."""
_LINK = (
    rf"[a-z][a-z0-9+.-]{{1,20}}:[/\\]{{1,8}}{_REST}+|(?:https?|wss?|ftp):{_REST}+"
    rf"|(?<![:\w/\\])[/\\]{{2,8}}(?=[^\s/\\<>]{{0,253}}[.:\d\[]){_REST}+"
)
_MAIL = rf"{_LOCAL}(?:{_END}|\[?(?:\d{{1,3}}\.){{3}}\d{{1,3}}\]?)"
_HOST = rf"(?<![\w@.%+-])(?:[\w-]{{1,63}}\.){{1,8}}(?:xn--[\w-]{{2,59}}|[^\W\d_]{{2,24}})(?![\w@-])\.?{_PATH}"
_PART = r"(?:0x[\da-f]{1,2}|\d{1,4})"
_IP = (
    rf"(?<![\w.]){_PART}(?:\.{_PART}){{3}}(?!\.?\w){_PATH}"
    rf"|(?<![\w.])(?:0x[\da-f]{{6,8}}|\d{{8,10}})(?::\d{{1,5}})?[/?]{_REST}{{0,256}}={_REST}*"
    rf"|\[(?:[\da-f]{{0,4}}:){{2,7}}[\da-f.]{{0,15}}\]{_PATH}"
    r"|(?<![\w:.])(?=[\da-f:]{0,40}::|(?:[\da-f]{1,4}:){7})(?:[\da-f]{0,4}:){2,7}[\da-f.]{1,15}"
)
_CODE = (
    r"(?<![^\W_])[a-z]{2}\d{2}(?:[a-z0-9]{11,30}|(?:[ -][a-z0-9]{4}){2,7}(?:[ -][a-z0-9]{1,3})?)(?![^\W_])"
    r"|(?<![^\W_])(?:0x[\da-f]{40}|bc1[a-z0-9]{20,60}|\d{9,20})(?![^\W_])|(?<!\w)(?:\+|00|\(?0)[\d ()/.-]{6,22}\d"
)
_ADDRESSES = re.compile(f"(?P<link>{_LINK})|(?P<mail>{_MAIL})|(?P<host>{_HOST}|{_IP})|(?P<code>{_CODE})", re.I)
_LINKS_ONLY = re.compile(_LINK, re.I)
_ENDS = ".,;:!?)]}'\""
_SPACED = re.compile(r"(?<!\S)(?:\S\s){5,2000}\S(?!\S)")
"""Text with a blank or a line break between all characters."""
_DOT = re.compile(r"\s?[\[({]?\s?(?<![^\W_])(?:dot|punkt|punto|ponto)(?![^\W_])\s?[\])}]?\s?")
_ANY_DOT, _AT = (re.compile(rf"\s?[\[({{]?\s?(?:{word})\s?[\])}}]?\s?") for word in (DOT_WORD, AT_WORD))
_FREQUENT, _AROUND = ("at", "et"), " \t\r\n[](){}"
_INSIDE = re.compile(r"[\t\r\n]+")
"""Characters that programs remove from a URL before they open it (URL Standard, section 4.4)."""
_MIN_CODE = 8
"""Minimum number of digits in an account or telephone number."""
FILE_ENDINGS = frozenset(re.findall(r"\w+", """
    7z as avi bak bash bat bin bmp bz bz2 c cab cc cfg cl class cmd conf cpp cs css csv dat db deb diff dll dmg
    doc docs docx dot env eps epub exe fish gd gif go gz h hpp hs htm html ico ini ipynb iso jar java jpeg jpg
    js json jsonl jsx key kt la lock log lua m mak md mdx mk ml mm mo mov mp3 mp4 msi odp ods odt old orig out
    parquet patch pdf phar php pl pm png po ppt pptx properties proto ps ps1 psd pub py pyc pyi r rar rb rpm rs
    rst rtf sass scala scss sh so sql sqlite st svg swift tar tex tf tgz tif tiff toml ts tsv tsx txt vb vue
    wasm wav webp whl wit xhtml xls xlsx xml xz yaml yml zig zip zsh
"""))  # fmt: skip
"""File name extensions that are also top-level domains (README.md, build.sh), or could be in a private network."""


class Form(StrEnum):
    """The form of an address inside a text."""

    WEB = "web"
    """A link, or a host with or without a path."""
    FILE = "file"
    """A word that is either a host or the name of a file."""
    SPLIT = "split"
    """A link with line breaks inside. It may also be a link followed by the next line of the text."""
    MAIL = "mail"
    CODE = "code"
    """An account or a telephone number."""


def find_links(text: str) -> tuple[str, ...]:
    """Return the links and email addresses inside a text that are marked as such, without trailing punctuation."""
    if not any(mark in text for mark in ("@", "://", "www.")):
        return ()
    return tuple(found.rstrip(_ENDS) for found in _LINKS.findall(text))


def remove_links(text: str) -> str:
    """Return a text without the links that `find_links` returns."""
    return _LINKS.sub("", text)


def find_addresses(text: str) -> Iterator[tuple[str, Form]]:
    """Yield the addresses in a text and in all its readings. An address may be yielded in several spellings."""
    yield from _iter_matches(text)
    for plain in iter_readings(text):
        joined = ["".join(found[0].split()) for found in _SPACED.finditer(plain)]
        for reading in (plain, *joined, *(each for word in joined for each in iter_decoded(word))):
            yield from _iter_matches(reading)
            # "point" and others are frequent words: they mean a dot only between other parts of an email address.
            dot = _ANY_DOT if any(found[0].strip(_AROUND) not in _FREQUENT for found in _AT.finditer(reading)) else _DOT
            if dot.search(reading):
                yield from _iter_matches(_AT.sub("@", dot.sub(".", reading)))
        if _INSIDE.search(plain):
            links = _LINKS_ONLY.finditer(_INSIDE.sub("", plain))
            yield from ((found[0].rstrip(_ENDS), Form.SPLIT) for found in links)


def _iter_matches(text: str) -> Iterator[tuple[str, Form]]:
    for found in _ADDRESSES.finditer(text):
        value = found[0].strip().rstrip(_ENDS if not found[0].endswith("]") else "")
        if found.lastgroup == "code":
            yield from ((each, Form.CODE) for each in _list_codes(value))
        elif found.lastgroup == "mail":
            yield value, Form.MAIL
        elif found.lastgroup == "link" or re.search(r"[/?#\\:]", value):
            yield value, Form.WEB
        elif value:
            *first, last = value.split(".")
            if last.lower() in FILE_ENDINGS:
                yield value, Form.FILE
            elif last.isdigit() or not all(part.isdigit() for part in first):
                yield value, Form.WEB


def _list_codes(value: str) -> list[str]:
    """Return the readings of an account number in groups: complete, and without its last groups.

    The last groups may be words that follow the number in the text.
    """
    groups = re.split(r"([ -])", value) if value[:1].isalpha() else [value]
    found = ["".join(groups[:end]) for end in range(len(groups), 0, -2)]
    return [each for each in found if sum(char.isdigit() for char in each) >= _MIN_CODE]
