"""One RE2 pass over a text that tells which searches for a call's secrets can match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from wasmrt.egress.leaks._encoded import LEAST_ENCODED
from wasmrt.egress.leaks._linear import ExpressionError, compile_set
from wasmrt.egress.leaks._partial import PartialPattern
from wasmrt.egress.leaks._patterns import SEPARATORS, Patterns

_PIECE = 8
"""Enough of a pattern to be rare; the automaton grows with every byte."""
_STEP = 4
_SEPARATED = b"[" + b"".join(b"\\x%02x" % byte for byte in SEPARATORS) + b"]*"
_HIDDEN = b"[\\x00-\\x20\\x7f-\\xff]*"
_MEMORY_BYTES = 16 << 20


class MayMatch(NamedTuple):
    """The searches that can match a text; False is certain."""

    alnum: bool = True
    loose: bool = True
    visible: bool = True
    encoded: bool = True
    partial: bool = True


class PatternSet:
    """A piece of every pattern, with anything in between that its normal form drops, as one automaton.

    It takes 0.3 ms to build and saves three passes over a text. Other threads run meanwhile.
    """

    __slots__ = ("_searches", "_set")

    def __init__(self, patterns: Patterns, partial: Iterable[PartialPattern]) -> None:
        pieces = {
            "encoded": {LEAST_ENCODED},
            "alnum": {b"[^0-9A-Za-z]*".join(_distinctive(p.text)) for p in patterns.alnum},
            "loose": {_SEPARATED.join(_distinctive(p.text)) for p in patterns.loose},
            "visible": {_HIDDEN.join(_distinctive(p.text)) for p in patterns.visible},
            "partial": {re.escape(core[:_PIECE]) for p in partial for _, core in p.cores},
        }
        self._searches = [search for search, found in pieces.items() if found]
        self._set: Any = None
        try:
            expressions = [b"|".join(sorted(pieces[search])) for search in self._searches]
            compiled = compile_set(expressions, memory_bytes=_MEMORY_BYTES)
        except ExpressionError:  # hundreds of secrets are too much for its memory
            return
        # RE2 says "nothing" where its memory is too small for even a few states, and says it of every text.
        if compiled.Match(b"x" * 24) == [0]:
            self._set = compiled

    def may_match(self, data: bytes) -> MayMatch:
        """Return the searches that can match `data`."""
        if self._set is None:
            return MayMatch()
        hits = {self._searches[hit] for hit in self._set.Match(data) or ()}
        return MayMatch(*(search in hits for search in MayMatch._fields))


def _distinctive(text: bytes) -> Iterator[bytes]:
    """Yield, in either case, the bytes of the piece with the most different ones: the least likely by chance."""
    starts = range(0, len(text) - _PIECE + 1, _STEP)
    piece = max((text[at : at + _PIECE] for at in starts), key=lambda piece: len(set(piece)))
    return map(_either_case, piece)


@lru_cache(maxsize=256)
def _either_case(byte: int) -> bytes:
    char = bytes([byte])
    return b"[%b%b]" % (char.lower(), char.upper()) if char.isalpha() else re.escape(char)
