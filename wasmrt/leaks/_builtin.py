"""The rules that ship, in a form that is quick to open: `_build` makes it from the rule files, a test compares them.

`rules/built.jsonl` holds a line with literals, a line with gates, and one line for each rule, which is read when a
text touches that rule. Most texts touch none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from wasmrt.leaks._rules import Rule

RULE_FOLDER = Path(__file__).parent / "rules"
BUILT = "built.jsonl"
LONG_WORD = 12
"""Gates without a literal worth looking for begin with a word of at least this many letters and digits."""
_BREAKS = bytes(b if chr(b).isalnum() and b < 128 else 32 for b in range(256))


class BuiltinRules(Sequence["Rule"]):
    """Every rule that ships, each read when it is first asked for."""

    __slots__ = ("_cased", "_gates", "_lines", "_rules", "_uncased")

    def __init__(self) -> None:
        literals, self._gates, *self._lines = (RULE_FOLDER / BUILT).read_bytes().splitlines()
        self._cased, self._uncased = json.loads(literals)
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
            from wasmrt.leaks._rules import rule_from

            rule = self._rules[index] = rule_from(json.loads(self._lines[index]))
        return rule

    def __iter__(self) -> Iterator[Rule]:
        return (self[index] for index in range(len(self)))

    def gates(self) -> dict[str, list[int]]:
        """Map every gate to the numbers of the rules behind it."""
        gates: dict[str, list[int]] = json.loads(self._gates)
        return gates

    def may_touch(self, data: bytes) -> bool:
        """Tell whether any gate can be in a short text: a literal of each, or a long word, is."""
        text = data.decode("latin-1")
        lowered = text.lower()
        if any(literal in lowered for literal in self._uncased) or any(literal in text for literal in self._cased):
            return True
        return max(map(len, data.translate(_BREAKS).split()), default=0) >= LONG_WORD


@lru_cache(maxsize=1)
def builtin_rules() -> BuiltinRules:
    """Every rule that ships with wasmrt, opened once per process."""
    return BuiltinRules()
