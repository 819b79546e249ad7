"""The lists of the shell tool, from `lists/`: properties of programs, and the rules of each layer."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "lists"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8"))


_PROGRAMS = _read("programs")
SHELLS = frozenset(_PROGRAMS["shells"])
DECODERS = frozenset(_PROGRAMS["decoders"])
TRANSLATORS = frozenset(_PROGRAMS["translators"])
PRINTERS = frozenset(_PROGRAMS["printers"])
COMPILERS = frozenset(_PROGRAMS["compilers"])
SEARCHERS = frozenset(_PROGRAMS["searchers"])
WRAPPERS: Mapping[str, Mapping[str, Any]] = _PROGRAMS["wrappers"]
INTERPRETERS: Mapping[str, list[str]] = _PROGRAMS["interpreters"]
VALUE_OPTIONS: Mapping[str, list[str]] = _PROGRAMS["value_options"]
WRITERS: Mapping[str, list[str]] = _PROGRAMS["writers"]
PROSE: Mapping[str, list[str]] = _PROGRAMS["prose"]
CODE_WORDS: Mapping[str, list[str]] = _PROGRAMS["code_words"]
AWK_ASKS = re.compile("|".join(_PROGRAMS["awk"]["asks"]), re.DOTALL)
PYTHON_NAMES = frozenset(_PROGRAMS["python"]["names"])
PYTHON_MODULES: Mapping[str, list[str]] = _PROGRAMS["python"]["modules"]
_KNOWN = _read("known")
KNOWN: Mapping[str, list[str]] = {kind: _KNOWN[kind] for kind in ("readers", "writers", "runners")}
OPERANDS: Mapping[str, list[str]] = _KNOWN["operands"]
ASKS: Mapping[str, str] = _KNOWN["asks"]
ALIASES: Mapping[str, str] = _KNOWN["aliases"]
PLAIN = frozenset(_KNOWN["plain"])
OPTION_VALUES: Mapping[str, list[str]] = _KNOWN["option_values"]
SINGLE_DASH = frozenset(_KNOWN["single_dash"])
_SETS = {"@" + name: frozenset(_PROGRAMS[name]) for name in ("fetchers", "decoders", "translators", "shells")}

_ENVIRONMENT = _read("environment")
INHERITED_VARIABLES: tuple[str, ...] = tuple(_ENVIRONMENT["inherited"])
"""Environment variables of the host that a command inherits."""
PRIVATE_VARIABLES: Mapping[str, str] = _ENVIRONMENT["private"]
"""Variables that name the private folder of the call, or a folder in it."""
FIXED_VARIABLES: Mapping[str, str] = _ENVIRONMENT["fixed"]
_NEVER_KEPT: tuple[str, ...] = tuple(_ENVIRONMENT["session"]["never"])


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionValue:
    """An option of a program: its names, and a regular expression for its value."""

    names: frozenset[str]
    value: re.Pattern[str]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule of a list. It matches a command that has all its properties.

    Attributes:
        id: The name of the rule.
        why: A description of the effect of a matching command.
        examples: Command lines that match; the tests check them.
        others: Similar command lines that do not match.
        absent: A regular expression. The rule matches only if no argument matches this expression.
    """

    id: str
    why: str
    examples: tuple[str, ...]
    others: tuple[str, ...]
    programs: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    flags: tuple[tuple[str, ...], ...] = ()
    operand: str = ""
    absent: str = ""
    options_value: Mapping[str, Any] | None = None
    path: tuple[str, ...] = ()
    writes: bool = False
    assigns: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    substitutes: tuple[str, ...] = ()
    statement: str = ""
    structure: str = ""
    reads_script: bool = False
    unread: bool = False
    unknown: bool = False
    unknown_word: bool = False
    made_word: bool = False
    decoded_word: bool = False

    @cached_property
    def operand_expression(self) -> re.Pattern[str]:
        """The regular expression for an operand."""
        return re.compile(self.operand)

    @cached_property
    def statement_expression(self) -> re.Pattern[str]:
        """The regular expression that is searched in a command's words and input, for example for an SQL statement."""
        return re.compile(self.statement)

    @cached_property
    def option_value(self) -> OptionValue | None:
        """The option whose value matters."""
        given = self.options_value
        return None if given is None else OptionValue(names=frozenset(given["names"]), value=re.compile(given["value"]))

    def has_program(self, name: str) -> bool:
        """Return whether the rule applies to a program with this name."""
        return not self.programs or fits(name, self.programs)


def fits(name: str, patterns: tuple[str, ...] | frozenset[str] | list[str]) -> bool:
    """Return whether a name matches a list, where `*` matches any text and `@name` a set of programs."""
    for pattern in patterns:
        if pattern == "@any" or (name in _SETS[pattern] if pattern in _SETS else fnmatchcase(name, pattern)):
            return True
    return False


def find_interpreter(name: str) -> list[str] | None:
    """Return the options of an interpreter that take code, or None if the program is not an interpreter."""
    return next((options for pattern, options in INTERPRETERS.items() if fnmatchcase(name, pattern)), None)


def wrapper(name: str) -> Mapping[str, Any] | None:
    """Return how a program, or its subcommand as in "uv run", parses its arguments if it starts another program."""
    return next((form for pattern, form in WRAPPERS.items() if fnmatchcase(name, pattern)), None)


def _read_rule(given: dict[str, Any]) -> Rule:
    fields: dict[str, Any] = {}
    for key, value in given.items():
        frozen = tuple(map(tuple, value)) if key == "flags" else tuple(value) if isinstance(value, list) else value
        fields["sources" if key == "from" else key] = frozen
    return Rule(**fields)


def _read_rules(name: str) -> tuple[Rule, ...]:
    return tuple(_read_rule(each) for each in _read(name)["rule"])


LAYERS: Mapping[str, tuple[Rule, ...]] = {
    name: _read_rules(name) for name in ("blocked", "dangerous", "injection", "approval")
}
"""The layers that check a command line, in order. The fifth layer, the environment, has no list."""


def is_persistable(name: str) -> bool:
    """Return whether a session stores a variable.

    SECURITY: variables that change which programs run or what they load are never stored. A program or a sourced
    script may have set them, which no list has checked.
    """
    if name in INHERITED_VARIABLES or name in PRIVATE_VARIABLES or name in FIXED_VARIABLES:
        return False
    ruled = (rule.assigns for rules in LAYERS.values() for rule in rules if rule.assigns)
    return not fits(name, _NEVER_KEPT) and not any(fits(name, patterns) for patterns in ruled)
