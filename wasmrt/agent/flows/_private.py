"""Private text, kept as keyed marks of its runs: enough to say that another text holds a part of it, and no more."""

from __future__ import annotations

import re

from wasmrt.agent.flows._forms import readings, squeezed
from wasmrt.agent.flows._marks import Marks
from wasmrt.core.limits import MAX_FLOW_BYTES

RUN = 24
"""Letters and digits of a run."""
_ANCHOR = re.compile(rb"[0-9bgmp]")
"""Runs begin where one of these stands, in every text in the same places, so that few have to be kept."""
_MAY_TELL = re.compile(r"[0-9@]")
_TELLING = re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}|\b(?=[\w-]{0,63}\d)[\w-]{6,64}\b")
"""Addresses, and words with a digit: codes, numbers of cards and passports. Short as they are, they tell something."""
_PENDING_BYTES = 256 * 1024


class Private:
    """Runs and telling words of texts, such as those that are not for everybody. Over its limit every text has one."""

    def __init__(self, limit: int = MAX_FLOW_BYTES) -> None:
        self._limit = limit
        self._marks = Marks()
        self._pending: list[str] = []
        self._pending_bytes = 0
        self.blind = False

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._marks.size + self._pending_bytes

    def add(self, text: str) -> None:
        """Take in a text."""
        if self.blind or not text:
            return
        self._pending.append(text)
        self._pending_bytes += len(text.encode("utf-8", "replace"))
        if self._pending_bytes > _PENDING_BYTES:
            self._prepare()

    def is_in(self, text: str) -> bool:
        """Tell whether a text holds a run or a telling word that was taken in."""
        self._prepare()
        if not self._marks and not self.blind:
            return False
        return (self.blind and bool(text)) or any(mark in self._marks for mark in self._wanted(text))

    def _prepare(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        for text in pending:
            if self._marks.size > self._limit:
                self.blind = True
                return
            self._marks.add(self._kept(text))

    @staticmethod
    def _kept(text: str) -> set[bytes]:
        """Return what is kept of a text."""
        return marks_of(text)

    @staticmethod
    def _wanted(text: str) -> set[bytes]:
        """Return what is looked for of a text."""
        return marks_of(text)


def marks_of(text: str) -> set[bytes]:
    """Return what is kept, or looked for, of a text: its runs and its telling words."""
    found: set[bytes] = set()
    for plain in readings(text):
        letters = squeezed(plain)
        starts = [anchor.start() for anchor in _ANCHOR.finditer(letters, 0, max(0, len(letters) - RUN + 1))]
        found |= {letters[start : start + RUN] for start in starts}
        if _MAY_TELL.search(plain):
            found |= {b"t" + squeezed(word) for word in _TELLING.findall(plain)}
    return found
