"""Marks: a large set of short texts, kept as keyed hashes of four bytes."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Iterable

_BYTES = 4
_MASK = 0xFFFFFFFF


class Marks:
    """A set that can say whether a text is in it, and never which texts are; it only grows.

    A text that is not in it is taken for one once in four thousand million times the number of those that are.
    """

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._runs: list[array[int]] = []
        """Sorted; each more than twice as long as the next, so that there are few."""

    @property
    def size(self) -> int:
        """Bytes that the set takes."""
        return sum(_BYTES * len(run) for run in self._runs)

    def add(self, texts: Iterable[bytes]) -> None:
        """Put texts into the set."""
        fresh = sorted({self._mark(text) for text in texts})
        if not fresh:
            return
        while self._runs and len(self._runs[-1]) <= 2 * len(fresh):
            fresh = sorted({*self._runs.pop(), *fresh})
        self._runs.append(array("I", fresh))

    def __contains__(self, text: bytes) -> bool:
        mark = self._mark(text)
        for run in self._runs:
            place = bisect_left(run, mark)
            if place < len(run) and run[place] == mark:
                return True
        return False

    def __bool__(self) -> bool:
        return bool(self._runs)

    def _mark(self, text: bytes) -> int:
        return hash(self._key + text) & _MASK  # SipHash: nobody without the key knows which texts collide
