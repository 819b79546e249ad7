"""Escape untrusted text before it is written to a terminal."""

from __future__ import annotations

import re

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SUSPECT = re.compile(r"[^\n\x20-\x7e]")
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
    "|(?<![\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
)
"""Characters that Python treats as printable, but that are not drawn (default ignorable, Unicode 16, section 5.21).

The two variation selectors, which choose the form of an emoji, are allowed after an emoji.
"""


def printable(text: str) -> str:
    """Return `text` with every non-printable or invisible character except newline escaped.

    SECURITY: text of tools, sidecars and file names is untrusted, and can contain terminal control sequences, or text
    that the reader does not see.
    """
    if not text.replace("\n", " ").isprintable():
        text = _SUSPECT.sub(_escape_unprintable, text)
    return text if text.isascii() else _INVISIBLE.sub(_escape, text)


def printable_log(text: str) -> str:
    """Return `text` as `printable` does, but leave tabs, which many programs indent with."""
    return "\t".join(map(printable, text.split("\t")))


def to_single_line(text: str) -> str:
    """Return `text` as a single line: newlines become spaces, other non-printable characters are escaped.

    SECURITY: untrusted text must not start a new line, where it could imitate wasmrt's own output.
    """
    return printable(text.replace("\n", " "))


def in_ascii(text: str) -> str:
    """Return `text` with all non-ASCII characters escaped, for terminals without UTF-8."""
    return _NOT_ASCII.sub(_escape, text)


def _escape_unprintable(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else _escape(found)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    above = code - 0x10000  # encode as a surrogate pair, as JSON does (RFC 8259, section 7)
    return f"\\u{0xD800 + (above >> 10):04x}\\u{0xDC00 + (above & 0x3FF):04x}"
