"""The rules that ship, in a generated form that is quick to open.

`rules/built.jsonl` is made by `python tools/build_rules.py`, and a test compares the two: to read the TOML files takes
25 ms in every process, and this file 0.6 ms. It holds one line with the literals of `FirstLook`, one with all keywords,
and one for each rule, which is parsed when its keyword is first met. Most texts hold none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import overload

from wasmrt.egress.leaks._engine import RuleEngine
from wasmrt.egress.leaks._keywords import FirstLook, Keywords
from wasmrt.egress.leaks._prefilter import Prefilter
from wasmrt.egress.leaks._rules import Rule, rule_from

RULE_FOLDER = Path(__file__).parent / "rules"
BUILT = "built.jsonl"


class BuiltinRules(Sequence[Rule]):
    """Every rule that ships, each parsed when it is first asked for."""

    __slots__ = ("_lines", "_rules", "keywords", "literals")

    def __init__(self) -> None:
        literals, keywords, *self._lines = (RULE_FOLDER / BUILT).read_bytes().splitlines()
        self.literals: tuple[list[str], list[str]] = tuple(json.loads(literals))
        """One of these, with its case or in lower case, is in every text with a keyword."""
        self.keywords: dict[str, list[int]] = json.loads(keywords)
        """Every keyword with the numbers of the rules behind it."""
        self._rules: list[Rule | None] = [None] * len(self._lines)

    def __len__(self) -> int:
        return len(self._rules)

    @overload
    def __getitem__(self, index: int) -> Rule: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Rule, ...]: ...
    def __getitem__(self, index: int | slice) -> Rule | tuple[Rule, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        rule = self._rules[index]
        if rule is None:
            rule = self._rules[index] = rule_from(json.loads(self._lines[index]))
        return rule


@lru_cache(maxsize=1)
def builtin_rules() -> BuiltinRules:
    """Return every rule that ships with wasmrt, opened once per process."""
    return BuiltinRules()


@lru_cache(maxsize=1)
def builtin_engine() -> RuleEngine:
    """Return the engine of the rules that ship, compiled once per process."""
    rules = builtin_rules()
    first_look, prefilter = FirstLook(*rules.literals), Prefilter(rules.keywords)
    return RuleEngine(rules, Keywords(rules.keywords, first_look=first_look, prefilter=prefilter))
