"""Rules as data: the fields of a rule, its expressions, and the parsing of rule files.

A rule has one of three forms:
`token`    a format that is recognisable on its own, written from its first literal characters on;
`names` + `value`  a format that is only significant next to a name, as in `NAME_key = value`;
`pattern`  any expression whose first group is the secret, with its `keywords`; `ASSIGN` in it stands
           for everything between a name and its value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean
from wasmrt.egress.leaks._context_checks import CONTEXT_CHECKS
from wasmrt.egress.leaks._model import MAX_MATCH_BYTES, Severity
from wasmrt.egress.leaks._value_checks import CHECKS, CHECKSUMS

_ASSIGN = (
    r"""[\w.\-]*(?:[ \t]?[\w.\-]+)?\\?["'`\])>]*\s*"""
    r"""(?:(?::{1,3}|[?.+]|\|\|)?=[ \t"'`(>=\\]*|(?:=>|\|\||[:>(])[\s"'`(=>\\]*|,[ \t"'`(\\]*)"""
)
"""Everything between a name and its value, in the notations of shells, programs, JSON, YAML and XML."""


class Rule(NamedTuple):
    """A rule that finds the secrets of one format of one provider."""

    id: str
    source: str
    """The document that describes the format, in one line."""
    provider: str = ""
    severity: Severity = Severity.HIGH
    token: str = ""
    names: tuple[str, ...] = ()
    value: str = ""
    pattern: str = ""
    keywords: tuple[str, ...] = ()
    """Literals, which may contain character classes. One of them begins near the start of every match.

    By default they are derived from the rule. They are case-sensitive only for a `token`.
    """
    entropy: float = 3.0
    """Minimum entropy of the secret, in bits per byte."""
    check: str = ""
    """The name of a check in `CHECKS` or `CONTEXT_CHECKS` that the secret must pass."""
    checksum: str = ""
    """The name of a checksum in `CHECKSUMS` that makes a match certain."""
    placeholders: bool = False
    """True if real values of the format look like placeholders."""
    inside: bool = False
    """True if the format is distinctive enough to be reported in the middle of a word."""
    reach: int = 512
    """Maximum length of a match in bytes."""
    matching: tuple[str, ...] = ()
    """Examples that the rule must find. Built-in rules have none: tests generate them from the format."""
    not_matching: tuple[str, ...] = ()
    """False positives that the rule must not find."""

    @property
    def expression(self) -> str:
        """The RE2 expression. Its first group is the secret."""
        if self.pattern:
            return self.pattern.replace("ASSIGN", _ASSIGN)
        if self.token:
            return f"({self.token})"
        return f"(?i:{'|'.join(self.names)}){_ASSIGN}({self.value})"

    def list_keyword_expressions(self) -> tuple[str, ...]:
        """Return the keywords as short RE2 expressions without repetition. Every match contains one of them."""
        if self.keywords:
            cased = bool(self.token)
            return tuple(_write_keyword_expression(k, cased=cased) for k in self.keywords)
        if self.names:
            return tuple(_write_keyword_expression(n, cased=False) for n in self.names)
        return (_write_keyword_expression(leading_literal(self.token), cased=True),)


_LITERAL = re.compile(r"(?:[A-Za-z0-9_\-/:@=~ ]|\\[.\-$+/])+")
_CLASS = re.compile(r"(\[[^\]]+\](?:\{[0-9]{1,2}\}|\*)?)")
_KEYWORD_MIN = 3


def leading_literal(expression: str) -> str:
    """Return the characters that every match of an expression starts with."""
    found = _LITERAL.match(expression)
    if not found:
        return ""
    literal = found.group()
    if expression[found.end() :][:1] in ("?", "*", "{"):
        literal = literal[:-1]
    return literal.replace("\\", "")


def _write_keyword_expression(text: str, *, cased: bool) -> str:
    """Convert a keyword to an expression: escape everything except character classes and their repetitions."""
    parts = _CLASS.split(text)
    units = sum(1 if part.startswith("[") else len(part) for part in parts)
    if units < _KEYWORD_MIN:
        raise ConfigurationError(
            f"the keyword {text!r} has fewer than three characters", hint='set "keywords" explicitly'
        )
    quoted = "".join(part if part.startswith("[") else re.escape(part) for part in parts)
    return quoted if cased else f"(?i:{quoted})"


_KEYS = set(Rule._fields)
_FILE_KEYS = {"provider", "source", "rules"}
_SEVERITIES = {str(s) for s in Severity}


def parse_rules(text: str, *, origin: str) -> tuple[Rule, ...]:
    """Parse one rule file.

    Raises:
        ConfigurationError: the text is not TOML, or has an unknown key, a wrong type or an incomplete rule.
    """
    import tomllib  # the import takes 3 ms, and is only needed for custom rules

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"rule file {origin} is not TOML: {error}") from error
    _refuse_unknown(document, _FILE_KEYS, origin)
    tables = document.get("rules", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise ConfigurationError(f'rule file {origin}: "rules" must be a list of tables, written as [[rules]]')
    shared = {k: v for k, v in document.items() if k != "rules"}
    return tuple(_parse_rule(shared | table, origin) for table in tables)


def _refuse_unknown(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in table.keys() - known:
        raise ConfigurationError(
            f"{where}: unknown key {key!r}", hint=nearest_hint(key, known, f"known keys: {', '.join(sorted(known))}")
        )


def nearest_hint(word: str, known: Collection[str], otherwise: str) -> str:
    """Return a hint that suggests the known word closest to `word`. If no known word is close, return `otherwise`."""
    # Names with the same first letter come first, because only a limited number is compared.
    nearest = did_you_mean(word, sorted(known, key=lambda name: (name[:1] != word[:1], name)))
    return f"did you mean {nearest}?" if nearest else otherwise


def _parse_rule(table: dict[str, Any], origin: str) -> Rule:
    where = f"rule file {origin}, rule {table.get('id', '?')}"
    _refuse_unknown(table, _KEYS, where)
    values = dict(table)
    for name, value in table.items():
        kind = type(Rule._field_defaults.get(name, ""))
        if kind is tuple and isinstance(value, list) and all(isinstance(v, str) for v in value):
            values[name] = tuple(value)
        elif kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            values[name] = float(value)
        elif kind is Severity and value in _SEVERITIES:
            values[name] = Severity(value)
        elif type(value) is not kind:
            wanted = "list of strings" if kind is tuple else kind.__name__
            raise ConfigurationError(f'{where}: "{name}" must be of type {wanted}')
    if not values.get("id") or not values.get("source"):
        raise ConfigurationError(f'{where}: "id" and "source" are required')
    rule = Rule(**values)
    _refuse_incomplete(rule, where)
    return rule


def make_rule(table: Mapping[str, Any]) -> Rule:
    """Create a rule from an already validated table."""
    lists = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
    return Rule(**{**table, **lists, "severity": Severity(table.get("severity", Severity.HIGH))})


def _refuse_incomplete(rule: Rule, where: str) -> None:
    forms = (bool(rule.token), bool(rule.names and rule.value), bool(rule.pattern))
    if sum(forms) != 1 or bool(rule.names) != bool(rule.value):
        raise ConfigurationError(f'{where}: set exactly one of "token", "names" with "value", or "pattern"')
    if rule.pattern and not rule.keywords:
        hint = "add a literal that every match contains"
        raise ConfigurationError(f'{where}: a "pattern" needs "keywords"', hint=hint)
    if not rule.keywords and any(re.search(r"[?*+\\[(|]", name) for name in rule.names):
        raise ConfigurationError(f'{where}: "names" that are expressions need "keywords"')
    try:
        rule.list_keyword_expressions()
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error.message}", hint=error.hint) from error
    _refuse_unknown_checks(rule, where)
    if not 16 <= rule.reach <= MAX_MATCH_BYTES:
        raise ConfigurationError(f'{where}: "reach" must be between 16 and {MAX_MATCH_BYTES} bytes')


def _refuse_unknown_checks(rule: Rule, where: str) -> None:
    if rule.check and rule.check not in CHECKS and rule.check not in CONTEXT_CHECKS:
        raise ConfigurationError(
            f"{where}: unknown check {rule.check!r}", hint=f"known checks: {', '.join((*CHECKS, *CONTEXT_CHECKS))}"
        )
    if rule.checksum and rule.checksum not in CHECKSUMS:
        raise ConfigurationError(f"{where}: unknown checksum {rule.checksum!r}")
