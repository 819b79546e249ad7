"""Bound what a text made of look-alikes costs: an allowance of work, and a cheaper way once that is used up.

A rule's expression is linear in the text, but a text can touch hundreds of rules at once, or be one refused candidate
after another. Work is therefore counted, in bytes that a rule looks at. Text that people write needs between one and
fifteen for each of its own. Where the allowance does not suffice, tokens are looked for by their words alone, and the
stretch is reported as unjudged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re2

    from wasmrt.leaks._rules import Rule

_FIRST_BYTES = 14_000_000
"""What every text may use: all rules on its first 32 KiB, or over a thousand refused candidates."""
_MORE_PER_BYTE = 3
_REFUSAL_BYTES, _INSIDE_BYTES = 8192, 3072
"""A refused candidate takes as long as a rule takes for so many bytes; less, where it looks like a token but stands in
the middle of a word, as base64 is full of."""
_LENGTH_SHARE = 48
"""What each byte adds to that where the candidate was weighed."""
_FIRST_WORDS = 4096
_BYTES_PER_WORD = 2048
_WORDS_PER_TRY, _WORDS_PER_BLOT = 8, 16
"""What every text may use of words that begin as tokens do, what more of it brings with it, and what it costs to try
a new word, or to blot one out."""
_MAX_KNOWN = 4096
_HEAD = 3
_LEAST_WORD = 9
"""No format that is recognisable by itself has fewer characters after the first three."""
LONGEST_WORD = 2200
"""No format that is recognisable by itself is longer."""
_OFTEN = 4
"""A word that is no secret is blotted out where it is met so often: looking past it would take most of the time."""
_WORD = rb"0-9A-Za-z_\-.+/%~$!"
_IN_WORDS = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.+/%~$!")


class Allowance:
    """What one scan may still spend on look-alikes, what it left unjudged, and the words it need not judge again."""

    __slots__ = ("_known", "_left", "_words", "exhausted", "unjudged")

    def __init__(self) -> None:
        self._left = _FIRST_BYTES
        self._words = _FIRST_WORDS
        self.exhausted = False
        self._known: dict[bytes, int] = {}
        self.unjudged: list[tuple[int, int]] = []

    def refill(self, size: int) -> None:
        """Add what `size` more bytes of text bring with them."""
        self._left = min(_FIRST_BYTES, max(0, self._left) + size * _MORE_PER_BYTE)
        self._words = min(_FIRST_WORDS, max(0, self._words) + size // _BYTES_PER_WORD)

    def covers(self, rule_bytes: int) -> bool:
        return rule_bytes <= self._left

    def take(self, rule_bytes: int) -> None:
        self._left -= rule_bytes
        self.exhausted = False

    def refuse(self, size: int, *, inside: bool) -> bool:
        """Pay for a refused candidate of so many bytes; False where nothing is left for another."""
        self._left -= _INSIDE_BYTES if inside else _REFUSAL_BYTES + size * _LENGTH_SHARE
        return self._left > 0

    def try_word(self, *, known: bool) -> bool:
        """Pay for a word; False where nothing is left for it."""
        self._words -= 1 if known else _WORDS_PER_TRY
        return self._words >= 0

    def give_up(self, start: int, end: int) -> None:
        """Note that nothing was left for trying every rule on `start..end`."""
        self.exhausted = True
        if self.unjudged and self.unjudged[-1][1] == start:
            start = self.unjudged.pop()[0]
        self.unjudged.append((start, end))

    def judged(self, word: bytes) -> None:
        """Remember a word that is no secret."""
        if len(self._known) < _MAX_KNOWN:
            self._known[word] = 0

    def knows(self, word: bytes) -> bool:
        return word in self._known

    def is_met_often(self, word: bytes) -> bool:
        """Count a known word, and pay for blotting it out once it is worth that."""
        self._known[word] += 1
        if self._known[word] % _OFTEN or self._words < _WORDS_PER_BLOT:
            return False
        self._words -= _WORDS_PER_BLOT
        return True


class Heads:
    """Words that begin as a format does that is recognisable by itself.

    A word's beginning is where none of its characters is before it: at most one word is under way at any place, so
    that the automaton's states are no more than the characters of all beginnings.
    """

    __slots__ = ("_expression", "_rules")

    def __init__(self, rules: Sequence[Rule], options: re2.Options) -> None:
        import re2

        from wasmrt.leaks._rules import leading_literal

        self._rules: dict[bytes, list[int]] = {}
        for index, rule in enumerate(rules):
            literal = leading_literal(rule.token)
            for start in (literal,) if len(literal) >= _HEAD else rule.gates if rule.token else ():
                numbers = self._rules.setdefault(start[:_HEAD].encode("latin-1"), [])
                if numbers[-1:] != [index]:
                    numbers.append(index)
        heads = b"|".join(map(re2.escape, self._rules))
        options.never_capture = True
        self._expression = re2.compile(rb"(?:^|[^%b])(?:%b)[%b]{%d,}" % (_WORD, heads, _WORD, _LEAST_WORD), options)

    def next(self, text: bytes, position: int) -> tuple[int, int] | None:
        """Where the next word begins and ends, `position` being at a word's edge."""
        match = self._expression.search(text, position)
        if not match:
            return None
        start, end = match.span()
        return start + (text[start] not in _IN_WORDS), end

    def rules(self, word: bytes) -> list[int]:
        """The numbers of the rules to try on a word."""
        return self._rules[word[:_HEAD]]


def without(text: bytes, start: int, end: int) -> bytes:
    """Blot a word out wherever it stands between the same two characters as here."""
    if not 0 < start < end < len(text):
        return text
    before, word, after = text[start - 1 : start], text[start:end], text[end : end + 1]
    blots = before + b" " * len(word) + after
    # twice, since a character between two words is after one and before the other
    return text.replace(before + word + after, blots).replace(before + word + after, blots)
