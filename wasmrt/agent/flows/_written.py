"""Written: what calls wrote down after strangers' text was seen, known again in every trace that reads it."""

from __future__ import annotations

import re
import threading

from wasmrt.agent.flows._forms import MIN_SQUEEZED, readings, squeezed
from wasmrt.agent.flows._private import Private, marks_of
from wasmrt.core.limits import MAX_FLOW_BYTES

_MAX_SHORT = 512
"""Characters of a text that is kept as a whole besides; in a longer one there are runs."""
_WORD = re.compile(r"[^\W\d]*")
_HOST = re.compile(  # every repetition is bounded, so that no text takes long
    r"[a-z][a-z0-9+.-]{0,20}:[/\\]{2,8}(?:[^\s/?#@\\]{0,256}@)?(?:www\.)?([^\s/?#:@\\<>\"'`]{1,253})"
    r"|(?<![\w@.-])(?:www\.)?((?:[\w-]{1,63}\.){1,8}[a-z]{2,24})(?=/)"
    r"|(?<![\w@.-])www\.((?:[\w-]{1,63}\.){1,8}[a-z]{2,24})"
)


class Written(Private):
    """Runs and telling words of texts, and of short ones the whole and the hosts of their links.

    A short text has no run that would be kept, and a link in it is a destination by itself. One word of fewer than
    eight letters is left out: it would be found in every other text, such as the name of a member. Any thread may use
    it, since all traces share it.
    """

    def __init__(self, limit: int = MAX_FLOW_BYTES) -> None:
        super().__init__(limit)
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        """Take in a text."""
        with self._lock:
            super().add(text)

    def is_in(self, text: str) -> bool:
        """Tell whether a text holds something that was taken in."""
        with self._lock:
            return super().is_in(text)

    @staticmethod
    def _kept(text: str) -> set[bytes]:
        return marks_of(text) | _hosts(text) | _whole(text)

    @staticmethod
    def _wanted(text: str) -> set[bytes]:
        lines = text.splitlines() if "\n" in text or "\r" in text else ()
        return marks_of(text) | _hosts(text) | _whole(text).union(*map(_whole, lines))


def _hosts(text: str) -> set[bytes]:
    """Return the hosts of the links in a text; of an address not, since many have one."""
    found = (match for plain in readings(text) for match in _HOST.finditer(plain))
    return {b"h" + squeezed(match[match.lastindex or 0]) for match in found}


def _whole(text: str) -> set[bytes]:
    if len(text) > _MAX_SHORT:
        return set()
    found = set()
    for plain in readings(text):
        letters = squeezed(plain)
        if letters and (len(letters) >= MIN_SQUEEZED or not _WORD.fullmatch(plain.strip())):
            found.add(b"s" + letters)
    return found
