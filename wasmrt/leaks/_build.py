"""Build the quick form of the rules that ship: `python -m wasmrt.leaks._build` after every change of a rule file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import product

from wasmrt.errors import ConfigurationError
from wasmrt.leaks._builtin import BUILT, LONG_WORD, RULE_FOLDER
from wasmrt.leaks._engine import gates_of
from wasmrt.leaks._rules import Rule, parse_rules

_PART = re.compile(r"(\[[^\]]+\])(\{([0-9]+)\}|\*)?")
_LITERAL_MIN = 3


def source_rules() -> tuple[Rule, ...]:
    """Read every rule file, in order of name.

    Raises:
        ConfigurationError: a rule is wrong.
    """
    files = sorted(RULE_FOLDER.glob("*.toml"))
    return tuple(rule for file in files for rule in parse_rules(file.read_text("utf-8"), origin=file.name))


def built(rules: Sequence[Rule]) -> str:
    """Write rules in their quick form."""
    gates = gates_of(rules)
    cased: set[str] = set()
    uncased: set[str] = set()
    for gate in gates:
        plain = gate.removeprefix("(?i:")
        if plain == gate:
            cased.update(_literals(gate))
        else:
            uncased.update(literal.lower() for literal in _literals(plain.removesuffix(")")))
    lines = [[_shortest(cased), _shortest(uncased)], gates, *(_table(rule) for rule in rules)]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def _table(rule: Rule) -> dict[str, object]:
    return {f.name: value for f in fields(Rule) if (value := getattr(rule, f.name)) != f.default}


def _shortest(literals: set[str]) -> list[str]:
    """Leave out each literal that holds another."""
    return sorted(one for one in literals if not any(other != one and other in one for other in literals))


def _literals(gate: str) -> Iterator[str]:
    """Yield literals, one of which is in every text that the gate matches; none where a long word is."""
    pieces = _PART.split(gate)
    texts = [re.sub(r"\\(.)", r"\1", text) for text in pieces[::4]]
    longest = max(texts, key=len)
    if len(longest) >= _LITERAL_MIN:
        yield longest
    elif not _is_long_word(gate):
        if any(pieces[2::4]):
            raise ConfigurationError(f"the gate {gate!r} has no literal of {_LITERAL_MIN} characters")
        choices = [[texts[0]]]
        for chars, text in zip(pieces[1::4], texts[1:], strict=True):
            choices += (_members(chars), [text])
        yield from map("".join, product(*choices))


def _is_long_word(gate: str) -> bool:
    """Tell whether all that a gate matches begins with a long word of letters and digits."""
    shortest = _PART.sub(lambda part: "0" * (0 if part[2] == "*" else int(part[3] or 1)), gate)
    members = [c for chars, *_ in _PART.findall(gate) for c in _members(chars)]
    return len(shortest) >= LONG_WORD and all(c.isascii() and c.isalnum() for c in (*shortest, *members))


def _members(chars: str) -> list[str]:
    return [c for c in map(chr, range(256)) if re.fullmatch(chars, c)]


if __name__ == "__main__":
    (RULE_FOLDER / BUILT).write_text(built(source_rules()), encoding="utf-8")
