"""One pass over a text that says which of the searches for a call's secrets it can be spared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import NamedTuple

from wasmrt.leaks._layers import LEAST_PACKED

_PIECE = 8
_LONGEST_CORE = 16
"""Enough of a part of a secret to be rare; the automaton grows with every byte."""
_MEMORY_BYTES, _MOST_MEMORY_BYTES = 4 << 20, 16 << 20
_PIECE_MEMORY_BYTES = 32 << 10


class Touched(NamedTuple):
    """What a text may hold; False is certain."""

    alnum: bool = True
    loose: bool = True
    packed: bool = True
    pieces: bool = True


NOTHING = Touched(alnum=False, loose=False, packed=False, pieces=False)


class Gate:
    """A piece of every needle, with anything in between that its normal form drops, as one automaton.

    RE2 goes through a text once and lets other threads run; bringing the text to its normal form and looking for
    each needle takes nearly twice as long. Building it takes as long as scanning a quarter of a megabyte.
    """

    __slots__ = ("_kinds", "_set", "_works")

    def __init__(
        self, alnum: Iterable[bytes], loose: Iterable[bytes], separators: bytes, cores: Iterable[bytes] = ()
    ) -> None:
        import re2

        between = b"[" + b"".join(b"\\x%02x" % byte for byte in separators) + b"]*"
        looked_for: dict[str, set[bytes]] = {
            "packed": {LEAST_PACKED},
            "alnum": {b"[^0-9A-Za-z]*".join(map(_either_case, _distinctive(text))) for text in alnum},
            "loose": {between.join(map(_either_case, _distinctive(text))) for text in loose},
            "pieces": {b"".join(b"\\x%02x" % byte for byte in core[:_LONGEST_CORE]) for core in cores},
        }
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        wanted = _PIECE_MEMORY_BYTES * sum(map(len, looked_for.values()))
        options.max_mem = max(_MEMORY_BYTES, min(_MOST_MEMORY_BYTES, wanted))
        options.log_errors = False  # the expressions are made of secrets
        self._set = re2.Set.SearchSet(options)
        self._kinds = [kind for kind, pieces in looked_for.items() if pieces]
        for kind in self._kinds:
            self._set.Add(b"|".join(sorted(looked_for[kind])))
        self._works = False
        with contextlib.suppress(re2.error):  # hundreds of secrets are too much for its memory
            self._set.Compile()
            # RE2 says "nothing" where its memory is too small for even a few states, and says it of every text.
            self._works = self._set.Match(b"x" * 24) == [0]

    def touched(self, data: bytes) -> Touched:
        """Say what `data` may hold."""
        if not self._works:
            return Touched()
        found = self._set.Match(data)
        if not found:
            return NOTHING
        hits = {self._kinds[hit] for hit in found}
        return Touched(*(kind in hits for kind in Touched._fields))


def _distinctive(text: bytes) -> bytes:
    """The piece with the most different characters: the least likely to be met by chance."""
    starts = range(len(text) - _PIECE + 1)
    return max((text[at : at + _PIECE] for at in starts), key=lambda piece: len(set(piece)))


def _either_case(byte: int) -> bytes:
    lower, upper = bytes([byte]).lower()[0], bytes([byte]).upper()[0]
    return b"\\x%02x" % lower if lower == upper else b"[%c%c]" % (lower, upper)
