"""Text of strangers for a terminal: nothing in it can drive one, or write a line that looks like ours."""

from __future__ import annotations

import re

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SUSPECT = re.compile(r"[^\n\x20-\x7e]")


def printable(text: str) -> str:
    """Return `text` with every character that a terminal might obey written as an escape; line ends stay.

    SECURITY: tools, sidecars and file names choose text that is shown here.
    """
    if text.replace("\n", " ").isprintable():
        return text
    return _SUSPECT.sub(_escaped, text)


def in_one_line(text: str) -> str:
    """Return `text` for a place where one line is expected.

    SECURITY: what begins at the margin is ours; no tool, sidecar or file name writes a line of its own there.
    """
    return printable(text.replace("\n", " "))


def in_ascii(text: str) -> str:
    """Return `text` with every other character than ASCII written as an escape, for a terminal that is not UTF-8."""
    return _NOT_ASCII.sub(_escape, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else _escape(found)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    above = code - 0x10000  # a pair of surrogates: JSON has no other way to say it (RFC 8259, 7)
    return f"\\u{0xD800 + (above >> 10):04x}\\u{0xDC00 + (above & 0x3FF):04x}"
