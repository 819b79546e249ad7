"""The built-in rules, and custom rules, which are checked before their use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import overload

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import UnfitFileError, read_file
from wasmrt.core.limits import KIB
from wasmrt.egress.leaks._engine import RuleEngine, compile_rule
from wasmrt.egress.leaks._keywords import FirstLook, Keywords, Prefilter
from wasmrt.egress.leaks._rules import Rule, make_rule, parse_rules

RULE_FOLDER = Path(__file__).parent / "rules"
BUILT = "built.jsonl"


class BuiltinRules(Sequence[Rule]):
    """All built-in rules, each parsed on first use."""

    __slots__ = ("_lines", "_rules", "keywords", "literals")

    def __init__(self) -> None:
        literals, keywords, *self._lines = (RULE_FOLDER / BUILT).read_bytes().splitlines()
        self.literals: tuple[list[str], list[str]] = tuple(json.loads(literals))
        """Case-sensitive literals, and lower-case literals. Every text with a keyword contains at least one of them."""
        self.keywords: dict[str, list[int]] = json.loads(keywords)
        """Every keyword with the indexes of its rules."""
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
            rule = self._rules[index] = make_rule(json.loads(self._lines[index]))
        return rule


@lru_cache(maxsize=1)
def builtin_rules() -> BuiltinRules:
    """Return all built-in rules, opened once per process."""
    return BuiltinRules()


@lru_cache(maxsize=1)
def builtin_engine() -> RuleEngine:
    """Return the engine of the built-in rules, compiled once per process."""
    rules = builtin_rules()
    first_look, prefilter = FirstLook(*rules.literals), Prefilter(rules.keywords)
    return RuleEngine(rules, Keywords(rules.keywords, first_look=first_look, prefilter=prefilter))


MAX_RULE_FILE_BYTES = 256 * KIB
MAX_CUSTOM_RULES = 256
MAX_EXPRESSION_CHARS = 2000


def read_rule_file(path: Path) -> tuple[Rule, ...]:
    """Read a file of custom rules, checked as in `load_custom_rules`.

    Raises:
        ConfigurationError: the file cannot be read, is not UTF-8 or is too large, or a rule is invalid. The message
            contains the rule's id.
    """
    try:
        text = read_file(path, max_bytes=MAX_RULE_FILE_BYTES, follow_link=True).decode("utf-8")
    except UnfitFileError as error:
        raise ConfigurationError(f"the rule file {error.strerror}") from error
    except OSError as error:
        message = f"the rule file {path.name} cannot be read ({error.strerror})"
        raise ConfigurationError(message, hint="check the path") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"the rule file {path.name} is not UTF-8") from error
    return load_custom_rules(text, origin=path.name)


def load_custom_rules(text: str, *, origin: str = "custom rules") -> tuple[Rule, ...]:
    """Load custom rules. Each rule must take linear time, find its examples and not find its false positives.

    Raises:
        ConfigurationError: the text is too large, or a rule is invalid. The message contains the rule's id.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_RULE_FILE_BYTES:
        raise ConfigurationError(f"rule file {origin} has over {MAX_RULE_FILE_BYTES} bytes")
    rules = parse_rules(text, origin=origin)
    if len(rules) > MAX_CUSTOM_RULES:
        raise ConfigurationError(f"rule file {origin} has over {MAX_CUSTOM_RULES} rules")
    for rule in rules:
        check_rule(rule)
        if not rule.matching:
            message = f'rule {rule.id}: "matching" has no example that the rule must find'
            raise ConfigurationError(message, hint="add examples to matching")
        if not rule.not_matching:
            message = f'rule {rule.id}: "not_matching" has no false positive that the rule must not find'
            raise ConfigurationError(message, hint="add false positives to not_matching")
    return rules


def check_rule(rule: Rule) -> None:
    """Check that a rule compiles, finds its examples and does not find its false positives.

    Raises:
        ConfigurationError: a check fails.
    """
    if len(rule.expression) > MAX_EXPRESSION_CHARS:
        raise ConfigurationError(f"rule {rule.id}: the expression has over {MAX_EXPRESSION_CHARS} characters")
    compile_rule(rule)
    engine = RuleEngine((rule,))
    for number, text in enumerate(rule.matching, start=1):
        if not any(True for _ in engine.find(text.encode("utf-8"))):
            raise ConfigurationError(f'rule {rule.id} does not match example {number} of "matching"')
    for number, text in enumerate(rule.not_matching, start=1):
        if any(True for _ in engine.find(text.encode("utf-8"))):
            raise ConfigurationError(f'rule {rule.id} matches example {number} of "not_matching"')
