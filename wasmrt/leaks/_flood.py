"""Bound what a text made of look-alikes costs: an allowance of work, and a cheaper way once that is used up.

A rule's expression is linear in the text, but a text can touch hundreds of rules at once, or be one refused candidate
after another. Work is therefore counted, in bytes that a rule looks at. Text that people write needs between one and
fifteen for each of its own. Where the allowance does not suffice, tokens are looked for by their words alone, and the
stretch is reported as unjudged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wasmrt.leaks._rules import Rule

_FIRST_BYTES = 8_000_000
"""What every text may use: all rules on its first 16 KiB, or two thousand refused candidates."""
_MORE_PER_BYTE = 4
_REFUSAL_BYTES = 4096
"""A refused candidate takes as long as a rule takes for so many bytes."""
_MAX_WORDS = 4096
_HEAD = 3
_LEAST_WORD = 12
"""No format that is recognisable by itself is shorter."""
_IN_WORDS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.+/%~$!"
_SPACED = bytes(byte if byte in _IN_WORDS else 32 for byte in range(256))


class Allowance:
    """What one scan may still spend on look-alikes, what it left unjudged, and the words it need not judge again."""

    __slots__ = ("_left", "known", "unjudged")

    def __init__(self) -> None:
        self._left = _FIRST_BYTES
        self.known: set[bytes] = set()
        self.unjudged: list[tuple[int, int]] = []

    def refill(self, size: int) -> None:
        """Add what `size` more bytes of text bring with them."""
        self._left = min(_FIRST_BYTES, max(0, self._left) + size * _MORE_PER_BYTE)

    def covers(self, rule_bytes: int) -> bool:
        return rule_bytes <= self._left

    def take(self, rule_bytes: int) -> None:
        self._left -= rule_bytes

    def refuse(self) -> bool:
        """Pay for a refused candidate; False where nothing is left for another."""
        self._left -= _REFUSAL_BYTES
        return self._left > 0

    def skip(self, start: int, end: int) -> None:
        """Note that `start..end` was not tried for every rule."""
        if self.unjudged and self.unjudged[-1][1] == start:
            start = self.unjudged.pop()[0]
        self.unjudged.append((start, end))

    def judged(self, word: bytes) -> None:
        """Remember a word that is no secret."""
        if len(self.known) < _MAX_WORDS:
            self.known.add(word)


class Heads:
    """The first characters of every format that is recognisable by itself."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Sequence[Rule]) -> None:
        from wasmrt.leaks._rules import leading_literal

        self._rules: dict[bytes, list[int]] = {}
        for index, rule in enumerate(rules):
            literal = leading_literal(rule.token)
            for start in (literal,) if len(literal) >= _HEAD else rule.gates if rule.token else ():
                numbers = self._rules.setdefault(start[:_HEAD].encode("latin-1"), [])
                if numbers[-1:] != [index]:
                    numbers.append(index)

    def candidates(
        self, data: bytes, start: int, end: int, allowance: Allowance
    ) -> Iterator[tuple[bytes, list[int], Iterator[int]]]:
        """Yield each word that begins in `start..end` as a format does, with the rules to try and where it stands."""
        spaced = data[start:end].translate(_SPACED)
        words = set(spaced.split()) - allowance.known
        # what a text holds comes out in the same order however it is hashed
        for word in sorted(word for word in words if len(word) >= _LEAST_WORD and word[:_HEAD] in self._rules):
            yield word, self._rules[word[:_HEAD]], _places(spaced, word, start)


def _places(spaced: bytes, word: bytes, base: int) -> Iterator[int]:
    """Yield where a word stands as a whole."""
    at = spaced.find(word)
    while at >= 0:
        after = at + len(word)
        if (at == 0 or spaced[at - 1] == 32) and (after == len(spaced) or spaced[after] == 32):
            yield base + at
        at = spaced.find(word, after)
