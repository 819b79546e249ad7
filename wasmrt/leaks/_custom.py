"""Rules of one's own: the same file format, held to the same proof."""

from __future__ import annotations

from wasmrt.errors import ConfigurationError
from wasmrt.leaks._engine import RuleEngine, compile_rule
from wasmrt.leaks._rules import Rule, parse_rules
from wasmrt.leaks._sample import example_of
from wasmrt.limits import KIB

MAX_RULE_FILE_BYTES = 256 * KIB
MAX_CUSTOM_RULES = 256
MAX_EXPRESSION_CHARS = 2000


def load_custom_rules(text: str, *, origin: str = "custom rules") -> tuple[Rule, ...]:
    """Read a file of own rules: each is linear in time, finds its example and leaves its look-alikes alone.

    Raises:
        ConfigurationError: the file is too large, or a rule is wrong; the message names it.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_RULE_FILE_BYTES:
        raise ConfigurationError(f"rule file {origin} is over {MAX_RULE_FILE_BYTES} bytes")
    rules = parse_rules(text, origin=origin)
    if len(rules) > MAX_CUSTOM_RULES:
        raise ConfigurationError(f"rule file {origin} holds over {MAX_CUSTOM_RULES} rules")
    for rule in rules:
        prove(rule)
        if not rule.not_matching:
            raise ConfigurationError(f"rule {rule.id}: no look-alike that it must leave alone", hint="add not_matching")
    return rules


def prove(rule: Rule) -> str:
    """Check that a rule compiles, finds an example and leaves its look-alikes alone; return the example.

    Raises:
        ConfigurationError: it does not.
    """
    if len(rule.expression) > MAX_EXPRESSION_CHARS:
        raise ConfigurationError(f"rule {rule.id}: the expression is over {MAX_EXPRESSION_CHARS} characters")
    compile_rule(rule)
    example = example_of(rule)
    engine = RuleEngine((rule,))
    for number, text in enumerate(rule.not_matching):
        if any(True for _ in engine.find(text.encode("utf-8"))):
            raise ConfigurationError(f"rule {rule.id}: finds look-alike {number}, which it must leave alone")
    return example
