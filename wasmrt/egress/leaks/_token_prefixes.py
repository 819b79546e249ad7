"""Find tokens by their prefixes alone. This search is cheaper, for texts on which the work budget is exhausted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from wasmrt.egress.leaks._linear import compile_linear
from wasmrt.egress.leaks._model import MASK_COST, Check, WorkBudget
from wasmrt.egress.leaks._rules import Rule, leading_literal

_PREFIX = 3
_LEAST_REST = 9
"""Minimum characters of a token after its first three."""
LONGEST_WORD = 2200
"""A length that no token format exceeds."""
_MAX_KNOWN = 4096
_MASK_EVERY = 4
"""A known word is masked in the text at every fourth occurrence. Just skipping each occurrence would take most of the
time."""
_WORD = rb"0-9A-Za-z_\-.+/%~$!"
_IN_WORDS = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.+/%~$!")


class TokenPrefixes:
    """A search for words that start with the prefix of a self-identifying token format.

    Prefixes are only searched for at the start of words. So the automaton follows at most one
    word at any place, and has no more states than the prefixes have characters.
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
        """Return the indexes of the rules to try on a word."""
        return self._rules[word[:_PREFIX]]

    def find_words(
        self, text: bytes, known: KnownWords, budget: WorkBudget, check: Check
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the start of each word that is not in `known`, and the word, as far as the budget allows."""
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
                text = _mask(text, start, position)


class KnownWords:
    """Words that were found to be false positives in this scan."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}

    def __contains__(self, word: bytes) -> bool:
        return word in self._counts

    def add(self, word: bytes) -> None:
        """Store a false positive, up to a maximum number."""
        if len(self._counts) < _MAX_KNOWN:
            self._counts[word] = 0

    def is_frequent(self, word: bytes) -> bool:
        """Count an occurrence of a known word, and return whether the word should be masked now."""
        self._counts[word] += 1
        return self._counts[word] % _MASK_EVERY == 0


def _mask(text: bytes, start: int, end: int) -> bytes:
    """Replace the word `text[start:end]` with blanks, wherever the same two characters surround it."""
    if not 0 < start < end < len(text):
        return text
    before, word, after = text[start - 1 : start], text[start:end], text[end : end + 1]
    blanks = before + b" " * len(word) + after
    # Replace twice, since two adjacent occurrences can share the character between them.
    return text.replace(before + word + after, blanks).replace(before + word + after, blanks)
