"""The messages of the user.

SECURITY: a destination that the user named needs no approval. Values are therefore compared as a whole, and only
differences in case and Unicode normalization are ignored: look-alikes and longer names do not match.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from wasmrt.agent.flows._addresses import FILE_ENDINGS
from wasmrt.agent.flows._destinations import Kind
from wasmrt.agent.flows._forms import find_likely_numbers, parse_number
from wasmrt.core.limits import MAX_FLOW_SAID_BYTES
from wasmrt.core.normal_form import normalize

_MIN_STEM, _ENDING = 4, 3
"""Minimum length of the beginning that two forms of a word share, and maximum length of the ending that differs."""
_MIN_NAME = 3
_MIN_CODE = 4
"""Minimum length of an identifier of letters and digits that is said without a word such as `ID` before it."""
_MAX_VALUE = 2048
"""Maximum length of a destination that is searched for in the user's messages."""
_MAX_PLACES = 1000
_URLS = re.compile(r"[a-z][a-z0-9+.-]{0,20}://[^\s<>\"'`]+|(?<![\w.@/\\%+~-])[\w-]+(?:\.[\w-]+)+[^\s<>\"'`]*")
"""URLs and hosts. The domain of an email address is not included, because it does not name a web server."""
_MAX_CLAUSE = 200
"""Maximum length of the text before a value in which negations are searched for."""
_CLAUSE = re.compile(r"[.!?;:\n]\s|[,\n]|\b(?:but|instead|aber|sondern)\b(?! of)")
_REFUSED = re.compile(
    r"\b(?:not|never|don'?t|don’t|won'?t|mustn'?t|cannot|can'?t|no longer|except|instead of|other than|without|avoid"
    r"|ignore|nicht|niemals|nie|kein(?:e[nmrs]?)?|außer|ohne)\b"
)
_REMINDER = re.compile(
    r"\b(?:(?:do not|don'?t|don’t|never) (?:forget|hesitate|fail)|(?:not|nicht) (?:only|just|nur)|why not)\b"
)
"""Phrases that look like a negation but express a request."""
_PARTS = re.compile(r"([a-z][a-z0-9+.-]*://)?([^/?#\\\s]+)([^?#\\\s]*)[^\\\s]*")
_TRAILING = ".,;:!?)]}>'\""
_NUMBERED = r"(?:#|\b(?:ids?|no|nr|num|number|{noun})\b)[\s.:=#'\"`(]*"
_MARKED = "'\"`#@"
_WEB = ("http://", "https://", "ws://", "wss://")
"""Schemes allowed for a host that the user named without a scheme."""


class UserText:
    """The messages of the user. Messages beyond the limit are not stored, so that their destinations need approval."""

    def __init__(self, limit: int = MAX_FLOW_SAID_BYTES) -> None:
        self._limit = limit
        self._texts: list[str] = []
        self._numbers: set[str] = set()
        self._size = 0

    def add(self, text: str) -> None:
        """Add a message of the user."""
        plain = _normalize(text)
        if self._size + len(plain) > self._limit:
            return
        self._size += len(plain)
        self._texts.append(plain)
        self._numbers |= find_likely_numbers(plain)

    def names(self, value: object, kind: Kind, noun: str = "") -> bool:
        """Return whether the user named a destination.

        For an identifier, `noun` is the type of the thing it identifies: `file` for `file_id`.
        """
        if kind is Kind.AMOUNT and (found := parse_number(value)) is not None:
            return found in self._numbers
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or len(value) > _MAX_VALUE or not (plain := _normalize(value).strip()):
            return False
        if kind is Kind.ID:
            return self._contains_identifier(plain, noun)
        if kind is Kind.URL:
            return self._contains_url(plain)
        if kind is Kind.PATH:
            return self._contains(plain) or self._contains_file_name(plain)
        return self._contains(plain) or (len(plain) > _MIN_NAME and plain[0] in "#@" and self._contains(plain[1:]))

    def states(self, words: Sequence[str]) -> bool:
        """Return whether the messages contain each of the words in some form, such as `deletes` for `delete`."""
        return bool(words) and all(any(self._contains_word(text, word) for text in self._texts) for word in words)

    @staticmethod
    def _contains_word(text: str, word: str) -> bool:
        stem = word[: max(_MIN_STEM, len(word) - _ENDING)]
        pattern = rf"\b{re.escape(stem)}\w{{0,{len(word) - len(stem) + _ENDING}}}\b"
        return any(not _is_negated(text, found.start()) for found in re.finditer(pattern, text))

    def _contains(self, plain: str) -> bool:
        """Return whether the messages contain a text as a whole; a very short text must follow a quote, # or @."""
        if len(plain) < _MIN_NAME:
            return any(f"{mark}{plain}" in text and self._contains_complete(text, plain) for mark in _MARKED
                       for text in self._texts)  # fmt: skip
        return any(self._contains_complete(text, plain) for text in self._texts)

    @staticmethod
    def _contains_complete(text: str, plain: str) -> bool:
        return any(
            _is_complete(text, start, start + len(plain)) and not _is_negated(text, start)
            for start in _iter_positions(text, plain)
        )

    def _contains_identifier(self, plain: str, noun: str) -> bool:
        """Return whether the user named an identifier. The number 13 in a date does not name the identifier 13."""
        mixed = len(plain) >= _MIN_CODE and any(map(str.isdigit, plain)) and any(map(str.isalpha, plain))
        if mixed or (len(plain) >= 8 and not plain.isdigit()):
            return self._contains(plain)
        pattern = _NUMBERED.format(noun=re.escape(noun) if noun else "id") + re.escape(plain) + r"(?![\w-]|[.:/]\w)"
        return any(re.search(pattern, text) for text in self._texts)

    def _contains_file_name(self, plain: str) -> bool:
        """Return whether the user named a file.

        The name without its folders is sufficient, unless the path is absolute or contains "..".
        """
        folder, _, name = plain.removeprefix("./").rpartition("/")
        if not folder or plain.startswith(("/", "~")) or ".." in plain or "\\" in plain:
            return not folder and bool(name) and self._contains(name)
        return "." in name and not any(mark in folder for mark in ":%") and self._contains(name)

    def list_unsaid_folders(self, value: object) -> tuple[str, ...]:
        """Return the folders in a path that the user did not name; empty if the user named the complete path."""
        plain = _normalize(value).strip() if isinstance(value, str) and len(value) <= _MAX_VALUE else ""
        if not plain or self._contains(plain):
            return ()
        return tuple(part for part in plain.split("/")[:-1] if part not in ("", ".") and not self._contains(part))

    def _contains_url(self, plain: str) -> bool:
        """Return whether the user named a URL, one of its parent paths, or its host."""
        wanted = _parse_url(plain)
        if wanted is None:
            return False
        scheme, host, path = wanted
        for text in self._texts:
            for found in _URLS.finditer(text):
                said = _parse_url(found[0].rstrip(_TRAILING))
                if said is None or said[1] != host or not (said[0] or _is_host(said[1], said[2])):
                    continue
                if scheme and scheme not in ((said[0],) if said[0] else _WEB):
                    continue
                if _is_below(path, said[2]) and not _is_negated(text, found.start()):
                    return True
        return False


def _normalize(text: str) -> str:
    return normalize("NFC", normalize("NFC", text).casefold())


def _iter_positions(text: str, plain: str) -> Iterator[int]:
    """Yield the positions of `plain` in `text`, up to a maximum number."""
    start = text.find(plain)
    for _ in range(_MAX_PLACES):
        if start < 0:
            return
        yield start
        start = text.find(plain, start + 1)


def _is_negated(text: str, start: int) -> bool:
    """Return whether the user negated the text at a position, as in `never send it to eve@example.com`."""
    before = _CLAUSE.split(text[max(0, start - _MAX_CLAUSE) : start])[-1]
    return _REFUSED.search(_REMINDER.sub("", before)) is not None


def _is_complete(text: str, start: int, end: int) -> bool:
    """Return whether the text at a position is complete: it is not a part of a longer name, address or path."""
    before, after = text[max(0, start - 1) : start], text[end : end + 2]
    if before and (before.isalnum() or before in "_@%+/\\-." or unicodedata.combining(text[start])):
        return before == "@" and not text[max(0, start - 2) : start - 1].isalnum()  # a mention
    if not after:
        return True
    if after[0] in ".:,":
        return not after[1:] or after[1:].isspace() or after[1:] in _TRAILING
    return not (after[0].isalnum() or after[0] in "_@%+/\\-" or unicodedata.combining(after[0]))


def _parse_url(url: str) -> tuple[str, str, str] | None:
    """Return the scheme, the host and the path of a URL. The scheme may be empty.

    Return None if the text is not a URL, or could be understood in different ways.
    """
    found = _PARTS.fullmatch(url)
    if found is None or "@" in found[2] or "%" in found[2] or ".." in found[3] or "%2e" in found[3]:
        return None
    port = {"https://": ":443", "http://": ":80"}.get(found[1] or "", ":")
    return found[1] or "", found[2].removesuffix(port).rstrip("."), found[3].rstrip("/")


def _is_host(host: str, path: str) -> bool:
    """Return whether a word with dots but without a scheme is a host, and not a file name, a version or a date."""
    name, _, port = host.partition(":")
    labels = name.split(".")
    if all(label.isdigit() for label in labels):
        return len(labels) == 4 and bool(path or port)
    return labels[0] == "www" or labels[-1] not in FILE_ENDINGS or (bool(path) and not _is_file(path))


def _is_file(path: str) -> bool:
    """Return whether a path ends like a file name. `README.md/NOTES.md`, for example, is not a page of a host."""
    return path.rpartition(".")[2] in FILE_ENDINGS


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(above + "/")
