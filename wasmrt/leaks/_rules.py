"""Rules as data: what a rule file may say, and how a line of it becomes something to run.

A rule says one of three things:
`token`    a format that is recognisable by itself, written from its first literal characters on;
`names` + `value`  a format that means something only beside a name, as in `NAME_key = value`;
`pattern`  any expression whose first group is the secret, with the `gates` that announce it; `ASSIGN` in it stands
           for what lies between a name and its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from wasmrt.errors import ConfigurationError
from wasmrt.leaks._model import MAX_REACH_BYTES, Severity

_ASSIGN = (
    r"""[\w.\-]*(?:[ \t]?[\w.\-]+)?\\?["'`\])>]*\s*"""
    r"""(?:(?::{1,3}|[?.+]|\|\|)?=[ \t"'`(>=\\]*|(?:=>|\|\||[:>(])[\s"'`(=>\\]*|,[ \t"'`(\\]*)"""
)
"""From a name to its value, in the notations of shells, programs, JSON, YAML and XML."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One format of one provider."""

    id: str
    source: str
    """Where the format is described, in one line."""
    provider: str = ""
    severity: Severity = Severity.HIGH
    token: str = ""
    names: tuple[str, ...] = ()
    value: str = ""
    pattern: str = ""
    gates: tuple[str, ...] = ()
    """Literals with character classes, one of which begins near the start of every match.

    Their case counts for a `token` and does not otherwise.
    """
    entropy: float = 3.0
    """Bits per byte that the secret must reach."""
    check: str = ""
    checksum: str = ""
    placeholders: bool = False
    """Set where values of the format look like placeholders by themselves."""
    inside: bool = False
    """Set where the format is so distinctive that it counts in the middle of a word as well."""
    reach: int = 512
    """Bytes that a match may span."""
    example: str = ""
    """How an example is put together, where it cannot be drawn from the format: see `_sample`."""
    not_matching: tuple[str, ...] = ()
    """Look-alikes on which the rule stays quiet."""

    @property
    def expression(self) -> str:
        """The RE2 expression; its first group is the secret."""
        if self.pattern:
            return self.pattern.replace("ASSIGN", _ASSIGN)
        if self.token:
            return f"({self.token})"
        return f"(?i:{'|'.join(self.names)}){_ASSIGN}({self.value})"

    def gate_expressions(self) -> tuple[str, ...]:
        """Short RE2 expressions, without repetition, whose absence rules the rule out."""
        if self.gates:
            cased = bool(self.token)
            return tuple(_gate(g, cased=cased) for g in self.gates)
        if self.names:
            return tuple(_gate(n, cased=False) for n in self.names)
        return (_gate(leading_literal(self.token), cased=True),)


_LITERAL = re.compile(r"(?:[A-Za-z0-9_\-/:@=~ ]|\\[.\-$+/])+")
_CLASS = re.compile(r"(\[[^\]]+\](?:\{[0-9]{1,2}\}|\*)?)")
_GATE_MIN = 3


def leading_literal(expression: str) -> str:
    """The characters that every match of an expression starts with."""
    found = _LITERAL.match(expression)
    if not found:
        return ""
    literal = found.group()
    if expression[found.end() :][:1] in ("?", "*", "{"):
        literal = literal[:-1]
    return literal.replace("\\", "")


def _gate(text: str, *, cased: bool) -> str:
    """Quote a gate but for its character classes, each of which may repeat: the gates' automaton stays small."""
    parts = _CLASS.split(text)
    units = sum(1 if part.startswith("[") else len(part) for part in parts)
    if units < _GATE_MIN:
        raise ConfigurationError(f"the gate {text!r} has fewer than three characters", hint="set gates explicitly")
    quoted = "".join(part if part.startswith("[") else re.escape(part) for part in parts)
    return quoted if cased else f"(?i:{quoted})"


_KEYS = {f.name for f in fields(Rule)}
_FILE_KEYS = {"provider", "source", "rules"}
_SEVERITIES = {str(s) for s in Severity}


def parse_rules(text: str, *, origin: str) -> tuple[Rule, ...]:
    """Read one rule file.

    Raises:
        ConfigurationError: not TOML, an unknown key, a wrong type, or a rule that says nothing.
    """
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"rule file {origin} is not TOML: {error}") from error
    _refuse_unknown(document, _FILE_KEYS, origin)
    tables = document.get("rules", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise ConfigurationError(f"rule file {origin}: rules must be a list of tables, written [[rules]]")
    shared = {k: v for k, v in document.items() if k != "rules"}
    return tuple(_rule_of(shared | table, origin) for table in tables)


def _refuse_unknown(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in table.keys() - known:
        from difflib import get_close_matches

        nearest = get_close_matches(key, known, 1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"known keys: {', '.join(sorted(known))}"
        raise ConfigurationError(f"{where}: unknown key {key!r}", hint=hint)


def _rule_of(table: dict[str, Any], origin: str) -> Rule:
    where = f"rule file {origin}, rule {table.get('id', '?')}"
    _refuse_unknown(table, _KEYS, where)
    values = dict(table)
    for field in fields(Rule):
        if field.name not in values:
            continue
        value, kind = values[field.name], str(field.type)
        if kind == "tuple[str, ...]" and isinstance(value, list) and all(isinstance(v, str) for v in value):
            values[field.name] = tuple(value)
        elif kind == "float" and isinstance(value, (int, float)) and not isinstance(value, bool):
            values[field.name] = float(value)
        elif kind == "Severity" and value in _SEVERITIES:
            values[field.name] = Severity(value)
        elif type(value).__name__ != kind:
            raise ConfigurationError(f"{where}: {field.name} must be of type {kind}")
    if not values.get("id") or not values.get("source"):
        raise ConfigurationError(f"{where}: id and source are required")
    rule = Rule(**values)
    _refuse_incomplete(rule, where)
    return rule


def rule_from(table: Mapping[str, Any]) -> Rule:
    """Make a rule of a table that was checked when it was built."""
    lists = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
    return Rule(**{**table, **lists, "severity": Severity(table.get("severity", Severity.HIGH))})


def _refuse_incomplete(rule: Rule, where: str) -> None:
    forms = (bool(rule.token), bool(rule.names and rule.value), bool(rule.pattern))
    if sum(forms) != 1 or bool(rule.names) != bool(rule.value):
        raise ConfigurationError(f"{where}: give exactly one of token, names with value, or pattern")
    if rule.pattern and not rule.gates:
        raise ConfigurationError(f"{where}: a pattern needs gates", hint="name a literal that every match contains")
    if not rule.gates and any(re.search(r"[?*+\\[(|]", name) for name in rule.names):
        raise ConfigurationError(f"{where}: names that are expressions need gates")
    try:
        rule.gate_expressions()
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error.message}", hint=error.hint) from error
    _refuse_unknown_checks(rule, where)
    if not 16 <= rule.reach <= MAX_REACH_BYTES:
        raise ConfigurationError(f"{where}: reach must be between 16 and {MAX_REACH_BYTES} bytes")


def _refuse_unknown_checks(rule: Rule, where: str) -> None:
    from wasmrt.leaks._checks import CHECKS, CHECKSUMS
    from wasmrt.leaks._generic import CONTEXT_CHECKS

    if rule.check and rule.check not in CHECKS and rule.check not in CONTEXT_CHECKS:
        raise ConfigurationError(f"{where}: unknown check {rule.check!r}", hint=f"known: {', '.join(CHECKS)}")
    if rule.checksum and rule.checksum not in CHECKSUMS:
        raise ConfigurationError(f"{where}: unknown checksum {rule.checksum!r}")
