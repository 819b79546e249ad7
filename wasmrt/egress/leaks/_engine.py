"""Find secrets by format: search for all keywords with RE2, then apply the rules of the found keywords block by block.

Both steps take linear time. In a text full of keywords, each rule takes one more linear pass, however often its
keywords occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.egress.leaks._context_checks import CONTEXT_CHECKS
from wasmrt.egress.leaks._keywords import Keywords, map_keywords
from wasmrt.egress.leaks._linear import ExpressionError, compile_linear
from wasmrt.egress.leaks._model import Check, WorkBudget, no_check
from wasmrt.egress.leaks._rules import Rule
from wasmrt.egress.leaks._token_prefixes import LONGEST_WORD, KnownWords, TokenPrefixes
from wasmrt.egress.leaks._value_checks import CHECKS, CHECKSUMS, is_documented, is_placeholder, measure_entropy

_COLOUR = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]\Z")
"""An expression for an ANSI sequence that ends directly before a candidate."""
_WORD = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = frozenset(b"abcdefghijklmnopqrstuvwxyz")
_HEX = frozenset(b"0123456789abcdefABCDEF")


def classify(rule: Rule, data: bytes, begin: int, start: int, end: int) -> bool | None:
    """Return None if the candidate `data[start:end]` is a false positive, True if a checksum proves it, else False.

    The rule's match starts at `begin`, with the candidate or with the name before it.
    """
    value = data[start:end]
    if rule.checksum and CHECKSUMS[rule.checksum](value):
        return True
    if not rule.inside and not _stands_alone(data, begin, start, end):
        return None
    if rule.names and begin and data[begin] in _LOWER and data[begin - 1] in _LOWER:
        return None  # the name is the end of a longer word
    if rule.check in CONTEXT_CHECKS:
        passed = CONTEXT_CHECKS[rule.check](data, begin, start, end)
        return False if passed and not is_documented(value) else None
    if rule.check and not CHECKS[rule.check](value):
        return None
    if not rule.placeholders and is_placeholder(value):
        return None
    if rule.entropy and measure_entropy(value) < rule.entropy:
        return None
    return None if is_documented(value) else False


def _stands_alone(data: bytes, begin: int, start: int, end: int) -> bool:
    """Return whether the candidate is a complete word. An escape directly before it is not part of the word."""
    if end < len(data) and data[end] in _WORD and data[end - 1] in _WORD:
        return False
    if begin != start or begin == 0 or data[begin - 1] not in _WORD:
        return True
    if begin >= 2 and data[begin - 2] == 0x5C:  # \n, \t, \" in a string literal
        return True
    if _COLOUR.search(data, max(0, begin - 12), begin):
        return True
    return begin >= 3 and data[begin - 3] == 0x25 and data[begin - 2] in _HEX and data[begin - 1] in _HEX


_BLOCK_BYTES = 4096
_CHUNK_BYTES = 16 * _BLOCK_BYTES
"""Maximum size of adjacent blocks with the same keyword that are searched together."""
_KEYWORD_OVERLAP_BYTES = 256


class Finding(NamedTuple):
    """A secret that a rule found, with half-open byte offsets. It is `certain` if a checksum proves it."""

    rule: Rule
    start: int
    end: int
    certain: bool


class _Scan(NamedTuple):
    """The state of scanning one text."""

    data: bytes
    check: Check
    budget: WorkBudget
    known: KnownWords


def compile_rule(rule: Rule) -> Any:
    """Compile a rule's expression.

    Raises:
        ConfigurationError: RE2 rejects the expression, or it has no group.
    """
    try:
        # The whole match of a token is the secret, and groups are slow.
        expression = compile_linear(rule.expression.encode("latin-1"), captures=not rule.token)
    except (ExpressionError, UnicodeEncodeError) as error:
        raise ConfigurationError(
            f"rule {rule.id}: RE2 cannot compile it as a linear-time expression: {error}",
            hint="RE2 has no look-around and no back-references",
        ) from error
    if expression.groups < 1 and not rule.token:
        raise ConfigurationError(f"rule {rule.id}: the expression has no group for the secret")
    return expression


class RuleEngine:
    """A fixed list of rules. A rule is compiled when one of its keywords is first found. Thread-safe."""

    __slots__ = ("_compiled", "_keywords", "_prefixes", "rules")

    def __init__(self, rules: Sequence[Rule], keywords: Keywords | None = None) -> None:
        self.rules = rules
        self._keywords = keywords or Keywords(map_keywords(rules))
        self._compiled: list[Any] = [None] * len(rules)
        self._prefixes: TokenPrefixes | None = None

    def rules_out(self, data: bytes) -> bool:
        """Return, at low cost, whether it is certain that no rule matches in a text."""
        return self._keywords.excludes_text(data)

    def find(self, data: bytes, check: Check = no_check, budget: WorkBudget | None = None) -> Iterator[Finding]:
        """Yield the findings in a text, chunk by chunk.

        `check` is called at every candidate, because a text full of candidates takes long. `budget` limits the work and
        records the parts of the text that were not searched completely.
        """
        large = len(data) >= _CHUNK_BYTES
        scan = _Scan(data, check, budget or WorkBudget(), KnownWords())
        view = memoryview(data)  # large chunks are not copied
        skipping = False
        for start in range(0, len(data), _CHUNK_BYTES):
            end = min(start + _CHUNK_BYTES, len(data))
            scan.budget.refill(end - start)
            window = view[start : end + _KEYWORD_OVERLAP_BYTES]
            if large and self._keywords.excludes_chunk(window):
                skipping = True
            elif skipping:  # after a chunk without keywords, test the next chunk at once before its blocks
                skipping = not self._keywords.find_in_text(window)
            if not skipping:
                blocks, cost = self._find_candidates(scan, start, end)
                skipping = not cost
                yield from self._search(scan, blocks, cost, start, end)

    def _find_candidates(self, scan: _Scan, start: int, end: int) -> tuple[list[tuple[int, set[int]]], int]:
        """Return the rules to try in each block, and the cost of trying them. Stop if the cost is over the budget."""
        keywords = self._keywords
        blocks: list[tuple[int, set[int]]] = []
        cost = 0
        for low in range(start, end, _BLOCK_BYTES):
            hits = keywords.find_in_text(scan.data[low : low + _BLOCK_BYTES + _KEYWORD_OVERLAP_BYTES])
            # Tokens cost half, because they start with a literal.
            cost += sum(_BLOCK_BYTES // 2 if keywords.cased[hit] else _BLOCK_BYTES for hit in hits)
            blocks.append((low, {index for hit in hits for index in keywords.rules[hit]}))
            if not scan.budget.covers(cost):
                break
        return blocks, cost

    def _search(
        self, scan: _Scan, blocks: list[tuple[int, set[int]]], cost: int, start: int, end: int
    ) -> Iterator[Finding]:
        """Try the rules of one chunk. If the budget does not suffice, also find tokens by their prefixes."""
        found: list[Finding] = []
        if scan.budget.charge(cost):
            try:
                for finding in self._find_by_rules(scan, blocks, end):
                    found.append(finding)
                    yield finding
                return
            except _ExhaustedError:
                pass
        scan.budget.exhaust(start, end)
        yield from (finding for finding in self._find_by_prefixes(scan, start, end) if finding not in found)

    def _find_by_rules(self, scan: _Scan, blocks: list[tuple[int, set[int]]], end: int) -> Iterator[Finding]:
        """Apply each rule to the blocks with its keywords. Adjacent blocks are searched together."""
        pending: dict[int, int] = {}
        for low, now in blocks:
            for index in pending.keys() - now:
                yield from self._apply(index, scan, pending.pop(index), low)
            for index in now:
                pending.setdefault(index, low)
        for index, low in pending.items():
            yield from self._apply(index, scan, low, end)

    def _apply(self, index: int, scan: _Scan, low: int, high: int) -> Iterator[Finding]:
        """Yield the findings of one rule that start in `low..high`."""
        rule, expression, data = self.rules[index], self._compile_expression(index), scan.data
        limit = min(high + rule.reach, len(data))
        position = low
        while match := expression.search(data, position, limit):
            scan.check()
            if match.start() >= high:
                return
            start, end = match.span() if rule.token else match.span(1)
            if start < 0:  # an alternative without a group: the whole match is the secret
                start, end = match.span()
            certain = classify(rule, data, match.start(), start, end)
            if certain is not None:
                yield Finding(rule, start, end, certain)
                resume = match.end()
            else:
                inside_word = bool(rule.token) and data[start - 1 : start].isalnum()
                if not scan.budget.charge_false_positive(end - start, inside_word=inside_word):
                    raise _ExhaustedError
                resume = _resume_offset(match, start, end)
            position = max(resume, match.start() + 1)

    def _find_by_prefixes(self, scan: _Scan, start: int, end: int) -> Iterator[Finding]:
        """Yield the tokens among the words that start with a token's prefix. Each false positive is tried only once."""
        if self._prefixes is None:
            self._prefixes = TokenPrefixes(self.rules)
        low = max(0, start - 1)
        text = scan.data[low : end + LONGEST_WORD]
        for place, word in self._prefixes.find_words(text, scan.known, scan.budget, scan.check):
            at = low + place
            if at >= end:
                return
            if at < start:
                continue
            rules = self._prefixes.rules(word)
            found = [finding for index in rules if (finding := self._match_token(index, scan.data, at)) is not None]
            if not found:
                scan.known.add(word)
            yield from found

    def _match_token(self, index: int, data: bytes, start: int) -> Finding | None:
        rule = self.rules[index]
        match = self._compile_expression(index).match(data, start, min(start + rule.reach, len(data)))
        certain = classify(rule, data, start, start, match.end()) if match else None
        return None if match is None or certain is None else Finding(rule, start, match.end(), certain)

    def _compile_expression(self, index: int) -> Any:
        expression = self._compiled[index]
        if expression is None:
            expression = self._compiled[index] = compile_rule(self.rules[index])
        return expression


class _ExhaustedError(Exception):
    """The budget is exhausted."""


def _resume_offset(match: Any, start: int, end: int) -> int:
    """Return the offset at which to continue after a false positive. A secret may start inside the match."""
    return int(max(match.start() + 3, min(start, match.end() - 1)) if start > match.start() else end)
