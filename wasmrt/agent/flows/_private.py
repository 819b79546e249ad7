"""Store text as keyed hashes, called marks, which show whether another text contains a part of the stored text."""

from __future__ import annotations

import os
import re
import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from itertools import chain, groupby
from operator import itemgetter

from wasmrt.agent.flows._forms import MIN_SQUEEZED, iter_readings, make_skeleton, squeeze
from wasmrt.core.limits import MAX_FLOW_BYTES

_BYTES = 4
_MASK = 0xFFFFFFFF
_MAX_UNMERGED, _MAX_SEARCHED = 64, 8
"""Maximum numbers of lists that are not merged, after an addition and in a search. More lists are merged."""


class Marks:
    """A growing set of strings that are stored as hashes. It supports only membership tests.

    The probability that a test finds a string that was not added is the number of strings divided by 2**32.
    """

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._runs: list[array[int]] = []
        """Sorted lists of hashes."""
        self._unmerged = 0
        """The number of lists since the last merge."""

    @property
    def size(self) -> int:
        """The size of the set in bytes. A string that was added again may be counted several times."""
        return sum(_BYTES * len(run) for run in self._runs)

    def exceeds(self, limit: int) -> bool:
        """Return whether the set needs more than `limit` bytes."""
        if self.size > limit and self._unmerged:
            self._merge()
        return self.size > limit

    def add(self, texts: Iterable[bytes]) -> None:
        """Add strings to the set."""
        key = self._key
        fresh = sorted([found & _MASK for found in set(map(hash, map(key.__add__, texts)))])  # as `_hash`, but faster
        if fresh:
            self._runs.append(array("I", fresh))
            self._unmerged += 1
            if self._unmerged > _MAX_UNMERGED:
                self._merge()

    def _merge(self) -> None:
        """Merge the last lists. Each remaining list is more than twice as long as all later ones."""
        merged = list(self._runs.pop())
        while self._runs and len(self._runs[-1]) <= 2 * len(merged):
            merged += self._runs.pop()
        merged.sort()  # in linear time, because the lists are sorted
        self._runs.append(array("I", map(itemgetter(0), groupby(merged))))
        self._unmerged = 0

    def __contains__(self, text: bytes) -> bool:
        if self._unmerged > _MAX_SEARCHED:
            self._merge()
        mark = self._hash(text)
        for run in self._runs:
            place = bisect_left(run, mark)
            if place < len(run) and run[place] == mark:
                return True
        return False

    def __bool__(self) -> bool:
        return bool(self._runs)

    def _hash(self, text: bytes) -> int:
        return hash(self._key + text) & _MASK  # SipHash: collisions cannot be found without the key


_RUN = re.compile(rb"[0-9bgmp](?=(.{23}))", re.S)
"""A run of 24 letters and digits. To store fewer runs, no run begins at another character."""
_MAY_TELL = "0123456789@"
_TELLING = re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}|\b(?=[\w-]{0,63}\d)[\w-]{6,64}\b")
"""Short strings that carry information: email addresses, and words with a digit, such as codes and card numbers."""
_GROUPED = re.compile(r"(?<![^\W_])(?:[^\W_]{0,6}\d[^\W_]{0,6}[\s./-]{1,2}){1,24}[^\W_]{0,6}\d[^\W_]{0,6}")
"""Codes in groups, such as account and telephone numbers."""
_DIGITS = re.compile(rb"(?<!\d)\d{8,9}(?!\d)|(?=(\d{10}))")
"""The digits of a code, without other characters around them. Long numbers are divided into overlapping parts."""
_MIN_GROUPED = 10
_PENDING_BYTES = 256 * 1024


class PrivateText:
    """Marks of the runs and significant words of added texts. If the marks exceed the limit, every text matches."""

    def __init__(self, limit: int = MAX_FLOW_BYTES) -> None:
        self._limit = limit
        self._marks = Marks()
        self._pending: list[str] = []
        self._pending_bytes = 0
        self.blind = False

    @property
    def size(self) -> int:
        """The stored size in bytes."""
        return self._marks.size + self._pending_bytes

    def add(self, text: str) -> None:
        """Add a text."""
        if self.blind or not text:
            return
        self._pending.append(text)
        self._pending_bytes += len(text.encode("utf-8", "replace"))
        if self._pending_bytes > _PENDING_BYTES:
            self._store_pending()

    def occurs_in(self, text: str) -> bool:
        """Return whether a text contains a run or a significant word of an added text."""
        self._store_pending()
        return (self.blind and bool(text)) or bool(self.find_marks(text))

    def find_marks(self, text: str) -> frozenset[bytes]:
        """Return the runs of characters and the significant words of the added texts that also occur in `text`."""
        self._store_pending()
        marks = self._marks_to_find(text) if self._marks else ()
        return frozenset(mark for mark in marks if mark in self._marks)

    def is_one_word(self, text: str) -> bool:
        """Return whether a text is, as a whole, a significant word of an added text."""
        self._store_pending()
        return b"t" + squeeze(make_skeleton(text)) in self._marks

    def _store_pending(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        self._marks.add(chain.from_iterable(map(self._marks_to_store, pending)))
        self.blind |= self._marks.exceeds(self._limit)

    @staticmethod
    def _marks_to_store(text: str) -> set[bytes]:
        """Return the marks to store for a text."""
        return compute_marks(text)

    @staticmethod
    def _marks_to_find(text: str) -> set[bytes]:
        """Return the marks to search for in a text."""
        return compute_marks(text)


def compute_marks(text: str) -> set[bytes]:
    """Return the runs and the significant words of a text, as strings for `Marks`."""
    found: set[bytes] = set()
    for plain in iter_readings(text):
        letters = squeeze(plain)
        found.update(_RUN.findall(letters))
        if not plain.isascii() or any(char in plain for char in _MAY_TELL):
            codes = {squeeze(word) for word in _TELLING.findall(plain)}
            codes |= {code for each in _GROUPED.findall(plain) if len(code := squeeze(each)) >= _MIN_GROUPED}
            found |= {b"t" + code for code in codes}
            found |= {b"t" + (part[1] or part[0]) for code in codes for part in _DIGITS.finditer(code)}
    return found


_MAX_SHORT = 512
"""Maximum length of a text of which a mark of the complete text is stored, too. Longer texts contain runs."""
_WORD = re.compile(r"[^\W\d]*")
_HOST = re.compile(  # every repetition is bounded, to bound the time
    r"[a-z][a-z0-9+.-]{0,20}:[/\\]{2,8}(?:[^\s/?#@\\]{0,256}@)?(?:www\.)?([^\s/?#:@\\<>\"'`]{1,253})"
    r"|(?<![\w@.-])(?:www\.)?((?:[\w-]{1,63}\.){1,8}[a-z]{2,24})(?=/)"
    r"|(?<![\w@.-])www\.((?:[\w-]{1,63}\.){1,8}[a-z]{2,24})"
)


class WrittenText(PrivateText):
    """Marks of untrusted or private text that calls wrote. Every trace recognizes the text by its marks. Thread-safe.

    In addition to the runs and significant words, the hosts of links are stored, and each short text as a whole. A
    single word of fewer than eight letters is not stored, because it would match many other texts.
    """

    def __init__(self, limit: int = MAX_FLOW_BYTES) -> None:
        super().__init__(limit)
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        """Add a text."""
        with self._lock:
            super().add(text)

    def occurs_in(self, text: str) -> bool:
        """Return whether a text contains a run, a significant word or a host of an added text, or the text itself."""
        with self._lock:
            return super().occurs_in(text)

    @staticmethod
    def _marks_to_store(text: str) -> set[bytes]:
        return compute_marks(text) | _make_host_marks(text) | _make_short_text_marks(text)

    @staticmethod
    def _marks_to_find(text: str) -> set[bytes]:
        lines = text.splitlines() if "\n" in text or "\r" in text else ()
        return (
            compute_marks(text)
            | _make_host_marks(text)
            | _make_short_text_marks(text).union(*map(_make_short_text_marks, lines))
        )


def _make_host_marks(text: str) -> set[bytes]:
    """Return the hosts of the links in a text. The hosts of email addresses are too common and are omitted."""
    found = (match for plain in iter_readings(text) for match in _HOST.finditer(plain))
    return {b"h" + squeeze(match[match.lastindex or 0]) for match in found}


def _make_short_text_marks(text: str) -> set[bytes]:
    if len(text) > _MAX_SHORT:
        return set()
    found = set()
    for plain in iter_readings(text):
        letters = squeeze(plain)
        if letters and (len(letters) >= MIN_SQUEEZED or not _WORD.fullmatch(plain.strip())):
            found.add(b"s" + letters)
    return found
