"""Find tokens by their prefixes alone: the cheaper search where the work budget does not cover every rule."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from wasmrt.egress.leaks._budgets import MASK_COST, Check, WorkBudget
from wasmrt.egress.leaks._linear import compile_linear
from wasmrt.egress.leaks._rules import Rule, leading_literal

_PREFIX = 3
_LEAST_REST = 9
"""No token format has fewer characters after its first three."""
LONGEST_WORD = 2200
"""No token format is longer."""
_MAX_KNOWN = 4096
_MASK_EVERY = 4
"""A known word is masked at every fourth encounter: looking past each would take most of the time."""
_WORD = rb"0-9A-Za-z_\-.+/%~$!"
_IN_WORDS = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.+/%~$!")


class TokenPrefixes:
    """Words that start with the prefix of a self-identifying token format.

    Prefixes are looked for at the beginnings of words only: at most one word is under way at any place, so that the
    automaton has no more states than all prefixes have characters.
    """

    __slots__ = ("_expression", "_rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules: dict[bytes, list[int]] = {}
        for index, rule in enumerate(rules):
            literal = leading_literal(rule.token)
            for start in (literal,) if len(literal) >= _PREFIX else rule.keywords if rule.token else ():
                numbers = self._rules.setdefault(start[:_PREFIX].encode("latin-1"), [])
                if numbers[-1:] != [index]:
                    numbers.append(index)
        prefixes = b"|".join(map(re.escape, self._rules))
        expression = rb"(?:^|[^%b])(?:%b)[%b]{%d,}" % (_WORD, prefixes, _WORD, _LEAST_REST)
        self._expression = compile_linear(expression)

    def rules(self, word: bytes) -> list[int]:
        """Return the numbers of the rules to try on a word."""
        return self._rules[word[:_PREFIX]]

    def words(self, text: bytes, known: KnownWords, budget: WorkBudget, check: Check) -> Iterator[tuple[int, bytes]]:
        """Yield where each unknown word starts, and the word, as far as the budget goes."""
        position = 0
        while match := self._expression.search(text, position):
            check()
            start, position = match.span()
            start += text[start] not in _IN_WORDS
            word = text[start:position]
            if word not in known:
                if not budget.charge_word():
                    return
                yield start, word
                continue
            if not budget.charge_word(1):
                return
            if known.is_frequent(word) and budget.charge_word(MASK_COST):
                text = _masked(text, start, position)


class KnownWords:
    """Words that were tried before in this scan and are false positives."""

    __slots__ = ("_met",)

    def __init__(self) -> None:
        self._met: dict[bytes, int] = {}

    def __contains__(self, word: bytes) -> bool:
        return word in self._met

    def add(self, word: bytes) -> None:
        """Remember a false positive, as long as there is room."""
        if len(self._met) < _MAX_KNOWN:
            self._met[word] = 0

    def is_frequent(self, word: bytes) -> bool:
        """Count an encounter with a known word and tell whether it is worth masking."""
        self._met[word] += 1
        return self._met[word] % _MASK_EVERY == 0


def _masked(text: bytes, start: int, end: int) -> bytes:
    """Blank a word wherever it stands between the same two characters as here."""
    if not 0 < start < end < len(text):
        return text
    before, word, after = text[start - 1 : start], text[start:end], text[end : end + 1]
    blanks = before + b" " * len(word) + after
    # twice, since a character between two words is after one and before the other
    return text.replace(before + word + after, blanks).replace(before + word + after, blanks)
