"""Phrases with untrusted parts, and shortened values."""

from __future__ import annotations

import re

from wasmrt.core.terminal import to_single_line

_PLAIN = re.compile(r"[\w.@:/+~*=-]+", re.ASCII)
CUT = "\u2026"


class Quoted(str):
    """Untrusted text in a phrase."""

    __slots__ = ()


Phrase = tuple[str, ...]
"""A sentence of wasmrt, in which some parts are `Quoted`."""


def to_plain_text(phrase: Phrase) -> str:
    """Return a phrase as one line of text.

    SECURITY: untrusted text is in quotation marks unless it is a single word, so that it cannot continue the sentence.
    """
    return "".join(_quote(part) if isinstance(part, Quoted) else part for part in phrase)


def start_of(text: str, limit: int) -> str:
    """Return the start of a text, with an ellipsis if it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}{CUT}"


def end_of(text: str, limit: int = 45) -> str:
    """Return the end of a host or an address, its decisive part, with an ellipsis if it was cut."""
    return text if len(text) <= limit else f"{CUT}{text[1 - limit :]}"


def shorten_middle(text: str, limit: int = 60) -> str:
    """Return a path without its middle, with an ellipsis if it was cut."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}{CUT}{text[half + 1 - limit :]}"


def is_cut(phrase: Phrase) -> bool:
    """Return whether a part of a phrase was cut."""
    return any(isinstance(part, Quoted) and CUT in part for part in phrase)


def _quote(text: str) -> str:
    shown = to_single_line(text)
    if _PLAIN.fullmatch(shown):
        return shown
    escaped = shown.replace('"', '\\"')
    return f'"{escaped}"'
