"""Build `wasmrt/egress/leaks/rules/built.jsonl` from the rule files. Run it after every change of a rule file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from wasmrt.egress.leaks._keywords import map_keywords
from wasmrt.egress.leaks._rule_sets import BUILT, RULE_FOLDER
from wasmrt.egress.leaks._rules import Rule, parse_rules

_UNIT = re.compile(r"\\(.)|(\[[^\]]+\])(?:\{([0-9]+)\}|(\*))?|(.)", re.DOTALL)
_LITERAL_MIN = 3


def source_rules() -> tuple[Rule, ...]:
    """Read every rule file, in order of name.

    Raises:
        ConfigurationError: a rule is invalid.
    """
    files = sorted(RULE_FOLDER.glob("*.toml"))
    return tuple(rule for file in files for rule in parse_rules(file.read_text("utf-8"), origin=file.name))


def built(rules: Sequence[Rule]) -> str:
    """Return the literals on one line, the keywords on another, and each rule on a separate line."""
    keywords = map_keywords(rules)
    lines = [literals(keywords), keywords, *(_table(rule) for rule in rules)]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def literals(keywords: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return strings of which at least one occurs in every text with a keyword: case-sensitive ones, then others."""
    cased: set[str] = set()
    uncased: set[str] = set()
    for keyword in keywords:
        if keyword.startswith("(?i:"):
            uncased.update(literal.lower() for literal in _literals(keyword.removeprefix("(?i:").removesuffix(")")))
        else:
            cased.update(_literals(keyword))
    return _shortest(cased), _shortest(uncased)


def _shortest(texts: set[str]) -> list[str]:
    """Leave out each string that contains another one."""
    return sorted(one for one in texts if not any(other != one and other in one for other in texts))


def _literals(keyword: str) -> Iterator[str]:
    """Yield the longest literal of a keyword, or all possible values of a short enough prefix."""
    units: list[list[str]] = []
    for escaped, chars, times, star, plain in _UNIT.findall(keyword):
        choices = [c for c in map(chr, range(256)) if re.fullmatch(chars, c)] if chars else [escaped or plain]
        units += [[]] if star else [choices] * int(times or 1)
    runs = "".join(unit[0] if len(unit) == 1 else "\0" for unit in units).split("\0")
    longest = max(runs, key=len)
    if len(longest) >= _LITERAL_MIN:
        return iter([longest])
    windows = [units[at : at + _LITERAL_MIN] for at in range(len(units) - _LITERAL_MIN + 1)]
    fewest = min((w for w in windows if all(w)), key=lambda w: len(list(product(*w))))
    return map("".join, product(*fewest))


def _table(rule: Rule) -> dict[str, object]:
    defaults = Rule._field_defaults
    return {name: value for name, value in rule._asdict().items() if name not in defaults or value != defaults[name]}


if __name__ == "__main__":
    (RULE_FOLDER / BUILT).write_text(built(source_rules()), encoding="utf-8")
