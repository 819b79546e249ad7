"""Find the formats in bytes: one pass over every gate, then only the touched rules, only where they were touched.

Both steps are RE2: linear in the text whatever the text is. The gates are plain literals, so their automaton is
bounded and never falls back; a flood of gates costs one more linear pass per touched rule, not work per hit.
The text is cut into blocks at fixed offsets, so that it does not matter in which pieces it arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from wasmrt.errors import ConfigurationError
from wasmrt.leaks._builtin import BuiltinRules
from wasmrt.leaks._flood import LONGEST_WORD, Allowance, Heads, without
from wasmrt.leaks._prefilter import Prefilter

if TYPE_CHECKING:
    import re2

    from wasmrt.leaks._rules import Rule

BLOCK_BYTES = 4096
STRIDE_BYTES = 16 * BLOCK_BYTES
"""Neighbouring blocks that touch the same rule are searched as one, up to this; strides lie at fixed offsets."""
_GATE_OVERLAP_BYTES = 256
_GLANCE_BYTES = 512
_SHORT_BYTES = 1024
"""Up to this a text is asked for any gate before all else; a longer one mostly holds some, and would be read twice."""
_QUICK_SCANS = 16
"""So many short texts are judged without the gate, which takes a while to build; a process that goes on builds it."""
_QUICK_BYTES = BLOCK_BYTES
"""Up to this a text is looked through for literals alone, as long as no other text needed the automaton."""
_GATE_MEMORY_BYTES = 64 << 20
_RULE_MEMORY_BYTES = 16 << 20


class Finding(NamedTuple):
    """A rule's secret at half-open byte offsets."""

    rule: Rule
    start: int
    end: int
    certain: bool


def _options(memory: int) -> re2.Options:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes are bytes: broken UTF-8 hides nothing
    options.max_mem = memory
    options.log_errors = False
    return options


def compile_rule(rule: Rule) -> Any:
    """Compile a rule's expression.

    Raises:
        ConfigurationError: RE2 refuses it, or it has no group.
    """
    import re2

    options = _options(_RULE_MEMORY_BYTES)
    options.never_capture = bool(rule.token)  # the secret is all of it, and groups are slow to find
    try:
        expression = re2.compile(rule.expression.encode("latin-1"), options)
    except (re2.error, UnicodeEncodeError) as error:
        raise ConfigurationError(
            f"rule {rule.id}: not a linear-time expression: {error}",
            hint="RE2 has no look-around and no back-references",
        ) from error
    if expression.groups < 1 and not rule.token:
        raise ConfigurationError(f"rule {rule.id}: the expression has no group for the secret")
    return expression


def gates_of(rules: Sequence[Rule]) -> dict[str, list[int]]:
    """Map every gate to the numbers of the rules behind it."""
    gates: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        for expression in rule.gate_expressions():
            gates.setdefault(expression, []).append(index)
    return gates


Check = Callable[[], None]
"""Raises when the scan is to end."""


class RuleEngine:
    """A fixed list of rules, compiled at the first scan; safe to share between threads."""

    __slots__ = (
        *("_by_gate", "_cased", "_compiled", "_gate", "_heads", "_lock", "_prefilter", "_quick_left"),
        "rules",
    )

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self._gate: re2.Set | None = None
        self._prefilter: Prefilter | None = None
        self._quick_left = _QUICK_SCANS
        self._by_gate: list[list[int]] = []
        self._cased: list[bool] = []
        self._compiled: list[Any] = [None] * len(rules)
        self._heads: Heads | None = None
        self._lock = Lock()

    def _prepare(self) -> re2.Set:
        import re2

        with self._lock:
            if self._gate is not None:
                return self._gate
            gates = self.rules.gates() if isinstance(self.rules, BuiltinRules) else gates_of(self.rules)
            gate = re2.Set.SearchSet(_options(_GATE_MEMORY_BYTES))
            for expression in gates:
                gate.Add(expression.encode("latin-1"))
            gate.Compile()
            if isinstance(self.rules, BuiltinRules):
                self._prefilter = Prefilter(gates)
            self._by_gate = list(gates.values())
            self._cased = [not expression.startswith("(?i:") for expression in gates]
            self._gate = gate
            return gate

    def is_clear(self, data: bytes) -> bool:
        """Whether a short text touches no rule, by one look and no more: what most calls answer is short and clean."""
        return self._gate is not None and len(data) <= _SHORT_BYTES and not self._gate.Match(data)

    def find(
        self,
        data: bytes,
        start: int = 0,
        end: int | None = None,
        check: Check | None = None,
        allowance: Allowance | None = None,
    ) -> Iterator[Finding]:
        """Yield the findings that begin in `start..end`; `start` lies on a stride's edge.

        `check` is called at every candidate: a text made of candidates takes long, and whoever waits may not wish to.
        `allowance` is that of the whole text; what it does not suffice for is noted there.
        """
        if self._gate is None and self._quick_left > 0:
            self._quick_left -= 1
            if self._is_quickly_clean(data):
                return
        gate = self._gate or self._prepare()
        stop = len(data) if end is None else end
        allowance = allowance or Allowance()
        large = stop - start >= STRIDE_BYTES
        prefilter = self._prefilter if large else None
        calm = False
        for base in range(start, stop, STRIDE_BYTES):
            edge = min(base + STRIDE_BYTES, stop)
            allowance.refill(edge - base)
            window = data[base : edge + _GATE_OVERLAP_BYTES]
            calm = (prefilter is not None and prefilter.rules_out(window)) or (calm and not gate.Match(window))
            if calm:  # where one stride touched nothing, the next is first looked at as one
                allowance.take(0)
                continue
            blocks: list[tuple[int, set[int]]] = []
            need = 0
            if allowance.exhausted:  # a glance says whether looking closer can be afforded
                need = self._cost(gate.Match(data[base : base + _GLANCE_BYTES]), edge - base)
            for low in range(base, edge, BLOCK_BYTES) if allowance.covers(need) else ():
                hits = gate.Match(data[low : low + BLOCK_BYTES + _GATE_OVERLAP_BYTES])
                need = (need if blocks else 0) + self._cost(hits, BLOCK_BYTES)
                blocks.append((low, {i for hit in hits or () for i in self._by_gate[hit]}))
                if not allowance.covers(need):
                    break
            calm = not need
            yield from self._stride(data, blocks, base, edge, need, check, allowance)

    def _stride(
        self,
        data: bytes,
        blocks: list[tuple[int, set[int]]],
        base: int,
        edge: int,
        need: int,
        check: Check | None,
        allowance: Allowance,
    ) -> Iterator[Finding]:
        """Try the touched rules, as far as the allowance goes; after that, words that begin as tokens do."""
        found: list[Finding] = []
        if allowance.covers(need):
            allowance.take(need)
            try:
                for finding in self._blocks(data, blocks, edge, check, allowance):
                    found.append(finding)
                    yield finding
                return
            except _ExhaustedError:
                pass
        elif blocks:
            allowance.take(need)  # to have looked closer has cost as well
        allowance.give_up(base, edge)
        yield from (f for f in self._by_words(data, base, edge, check, allowance) if f not in found)

    def _blocks(
        self, data: bytes, blocks: list[tuple[int, set[int]]], edge: int, check: Check | None, allowance: Allowance
    ) -> Iterator[Finding]:
        """Try the touched rules, each on its neighbouring blocks as one."""
        pending: dict[int, int] = {}
        for low, now in blocks:
            for index in pending.keys() - now:
                yield from self._apply(index, data, pending.pop(index), low, check, allowance)
            for index in now:
                pending.setdefault(index, low)
        for index, low in pending.items():
            yield from self._apply(index, data, low, edge, check, allowance)

    def _by_words(
        self, data: bytes, base: int, edge: int, check: Check | None, allowance: Allowance
    ) -> Iterator[Finding]:
        """Try words that begin as tokens do, one that is no secret only once."""
        if self._heads is None:
            self._heads = Heads(self.rules, _options(_RULE_MEMORY_BYTES))
        low, position = max(0, base - 1), 0
        text = data[low : edge + LONGEST_WORD]
        while place := self._heads.next(text, position):
            start, position = low + place[0], place[1]
            word = data[start : low + position]
            if start >= edge or not allowance.try_word(known=allowance.knows(word)):
                return
            if check is not None:
                check()
            if start < base:
                continue
            if allowance.knows(word):
                if allowance.is_met_often(word):
                    text = without(text, *place)
                continue
            here = [f for rule in self._heads.rules(word) if (f := self._token_at(rule, data, start)) is not None]
            if not here:
                allowance.judged(word)
            yield from here

    def _token_at(self, index: int, data: bytes, start: int) -> Finding | None:
        rule = self.rules[index]
        match = self._expression(index).match(data, start, min(start + rule.reach, len(data)))
        verdict = _judge(rule, data, start, start, match.end()) if match else None
        return None if match is None or verdict is None else Finding(rule, start, match.end(), verdict)

    def _is_quickly_clean(self, data: bytes) -> bool:
        return len(data) <= _QUICK_BYTES and isinstance(self.rules, BuiltinRules) and not self.rules.may_touch(data)

    def _cost(self, hits: list[int] | None, size: int) -> int:
        """What the rules behind some gates cost on so many bytes; tokens cost half, by their literal beginning."""
        return sum(size // 2 if self._cased[hit] else size for hit in hits or ())

    def _expression(self, index: int) -> Any:
        expression = self._compiled[index]
        if expression is None:
            expression = self._compiled[index] = compile_rule(self.rules[index])
        return expression

    def _apply(
        self, index: int, data: bytes, low: int, high: int, check: Check | None, allowance: Allowance
    ) -> Iterator[Finding]:
        rule, expression = self.rules[index], self._expression(index)
        limit = min(high + rule.reach, len(data))
        position = low
        while match := expression.search(data, position, limit):
            if check is not None:
                check()
            if match.start() >= high:
                return
            start, end = match.span() if rule.token else match.span(1)
            if start < 0:  # an alternative without a group: all of it is the secret
                start, end = match.span()
            verdict = _judge(rule, data, match.start(), start, end)
            if verdict is not None:
                yield Finding(rule, start, end, verdict)
            elif not allowance.refuse(end - start, inside=bool(rule.token) and data[start - 1 : start].isalnum()):
                raise _ExhaustedError
            position = max(match.end() if verdict is not None else _after(match, start, end), match.start() + 1)


class _ExhaustedError(Exception):
    """Nothing is left for one more refused candidate."""


def _judge(rule: Rule, data: bytes, begin: int, start: int, end: int) -> bool | None:
    from wasmrt.leaks._judge import judge

    return judge(rule, data, begin, start, end)


def _after(match: Any, start: int, end: int) -> int:
    """Where to look on after a refusal: inside the match, since the real one may begin there."""
    return int(max(match.start() + 3, min(start, match.end() - 1)) if start > match.start() else end)
