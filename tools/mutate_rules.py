"""Break every leak rule in its prefix, name or keyword, and check that its examples notice.

python -m tools.mutate_rules    try every break; print those that no example notices, and exit with 1 if there are any

A break changes one letter: `pat` becomes `pqt`. The examples in tests/egress/leaks/shapes.toml do not depend on the
rules' expressions, so a break that no example notices shows a spelling without an example.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.egress.leaks.examples import shapes
from wasmrt.egress.leaks import Rule
from wasmrt.egress.leaks._engine import RuleEngine
from wasmrt.egress.leaks._rule_sets import builtin_rules

_UNIT = re.compile(
    r"\\(?P<escaped>[^A-Za-z0-9])|\\.|\[(?:\\.|[^\]])+\]|\{[0-9,]+\}|\(\?[a-z]*:|[()|?*+^$.]|(?P<plain>.)", re.DOTALL
)
_REPEATED = re.compile(r"\{([0-9]+)")
_FILLER_LENGTH = 6
"""A repetition of at least this many characters is the random part of a token: its prefix ends there."""


class Break(NamedTuple):
    """A rule with one mistake, and a description of the mistake."""

    rule: Rule
    change: str


def breaks_of(rule: Rule) -> Iterator[Break]:
    """Yield the rule with one letter changed: in each prefix of a token, each name, or each keyword of a pattern."""
    if rule.token:
        for token in _broken(rule.token):
            yield Break(rule._replace(token=token), f"token {token}")
    for number, name in enumerate(rule.names):
        for broken in _broken(name):
            names = (*rule.names[:number], broken, *rule.names[number + 1 :])
            yield Break(rule._replace(names=names), f"name {broken}")
    if rule.value and (value := _longer(rule.value)) != rule.value:
        yield Break(rule._replace(value=value), f"value {value}")
    if rule.pattern:
        for number, keyword in enumerate(rule.keywords):
            for broken in _broken(keyword):
                keywords = (*rule.keywords[:number], broken, *rule.keywords[number + 1 :])
                yield Break(rule._replace(keywords=keywords), f"keyword {broken}")


def _broken(expression: str) -> Iterator[str]:
    """Yield the expression with the second letter of one literal run changed, for each run before the random part."""
    for run in _literal_runs(expression):
        place = run[min(1, len(run) - 1)]
        letter = expression[place]
        other = (
            "z" if letter in "qQ" else "7" if letter.isdigit() and letter != "7" else "Q" if letter.isupper() else "q"
        )
        start = place - 1 if expression[place - 1 : place] == "\\" else place
        yield expression[:start] + other + expression[place + 1 :]


def _literal_runs(expression: str) -> Iterator[list[int]]:
    """Yield the places of the characters of each literal run, up to the first long repetition after one."""
    run: list[int] = []
    seen = False
    for unit in _UNIT.finditer(expression):
        repeated = _REPEATED.match(unit[0])
        if repeated and seen and int(repeated[1]) >= _FILLER_LENGTH:
            break
        if unit["escaped"] or unit["plain"]:
            run.append(unit.end() - 1)
            continue
        if unit[0].startswith(("?", "*", "{0")) and run:
            run.pop()
        if run:
            yield run
            run, seen = [], True
    if run:
        yield run


def _longer(value: str) -> str:
    """Return the value's expression with its first exact length increased by one."""
    return re.sub(r"\{([0-9]+)\}", lambda found: f"{{{int(found[1]) + 1}}}", value, count=1)


def is_found(rule: Rule, text: str) -> bool:
    """Return whether the rule, alone, finds a credential in the text."""
    return any(True for _ in RuleEngine((rule,)).find(f"{text}\n".encode()))


def is_noticed(broken: Break) -> bool:
    """Return whether an example fails with the broken rule."""
    return not all(is_found(broken.rule, text) for text in shapes()[broken.rule.id].examples)


def main() -> int:
    """Try every break of every rule and print the unnoticed ones."""
    tried = [broken for rule in builtin_rules() for broken in breaks_of(rule)]
    unnoticed = [broken for broken in tried if not is_noticed(broken)]
    for broken in unnoticed:
        print(f"{broken.rule.id}: no example notices the {broken.change}")
    rules = len({broken.rule.id for broken in tried} - {broken.rule.id for broken in unnoticed})
    print(f"{len(tried)} breaks, {len(unnoticed)} unnoticed; every break of {rules} rules is noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    raise SystemExit(main())
