"""One RE2 pass over a text that tells which searches for a call's secrets can match."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from wasmrt.leaks._encoded import LEAST_ENCODED
from wasmrt.leaks._linear import ExpressionError, compile_set
from wasmrt.leaks._partial import PartialPattern
from wasmrt.leaks._patterns import SEPARATORS, Patterns

_PIECE = 8
_LONGEST_CORE = 16
"""Enough of a part of a secret to be rare; the automaton grows with every byte."""


class MayMatch(NamedTuple):
    """The searches that can match a text; False is certain."""

    alnum: bool = True
    loose: bool = True
    encoded: bool = True
    partial: bool = True


class PatternSet:
    """A piece of every pattern, with anything in between that its normal form drops, as one automaton.

    It takes 0.3 ms to build and saves three passes over a text. RE2 lets other threads run meanwhile.
    """

    __slots__ = ("_searches", "_set")

    def __init__(self, patterns: Patterns, partial: Iterable[PartialPattern]) -> None:
        between = b"[" + _quoted(SEPARATORS) + b"]*"
        pieces = {
            "encoded": {LEAST_ENCODED},
            "alnum": {b"[^0-9A-Za-z]*".join(map(_either_case, _distinctive(p.text))) for p in patterns.alnum},
            "loose": {between.join(map(_either_case, _distinctive(p.text))) for p in patterns.loose},
            "partial": {_quoted(core[:_LONGEST_CORE]) for p in partial for _, core in p.cores},
        }
        self._searches = [search for search, expressions in pieces.items() if expressions]
        self._set: Any = None
        try:
            compiled = compile_set(b"|".join(sorted(pieces[search])) for search in self._searches)
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


def _quoted(text: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in text)


def _distinctive(text: bytes) -> bytes:
    """Return the piece with the most different characters: the least likely to occur by chance."""
    starts = range(len(text) - _PIECE + 1)
    return max((text[at : at + _PIECE] for at in starts), key=lambda piece: len(set(piece)))


def _either_case(byte: int) -> bytes:
    lower, upper = bytes([byte]).lower()[0], bytes([byte]).upper()[0]
    return b"\\x%02x" % lower if lower == upper else b"[%c%c]" % (lower, upper)
