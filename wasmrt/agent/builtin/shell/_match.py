"""Decide whether a rule matches a command: yes, no, or maybe, if a word is unknown until the command runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

from wasmrt.agent.builtin.shell._commands import Command, Reading
from wasmrt.agent.builtin.shell._lists import (
    KNOWN,
    PRINTERS,
    PROSE,
    SEARCHERS,
    SINGLE_DASH,
    VALUE_OPTIONS,
    WRITERS,
    OptionValue,
    Rule,
    fits,
)
from wasmrt.agent.builtin.shell._paths import FoundPath, iter_paths, path_matches
from wasmrt.agent.builtin.shell._words import ANY, DECODED, UNKNOWN, Field, to_words

_PLAIN_SEARCH = re.compile(
    r"-[abchiHlLnoqrRsvVwxzEFGPTUZu]+|--(recursive|line-number|ignore-case|extended-regexp|fixed-strings|word-regexp"
    r"|files-with-matches|count|color(=\w+)?|no-filename|with-filename|invert-match|only-matching|quiet|hidden)"
)
_IN_PLACE = re.compile("-[a-zA-Z]*i|--in-place")
_WRITING = frozenset(each.lstrip("-") for each in WRITERS["options"])
"""The options of `WRITERS` without dashes: clusters and abbreviations may contain them."""
_SETTING = to_words("export declare typeset readonly local read printf mapfile readarray getopts let wait")
_VARIABLE = re.compile(r"([A-Za-z_]\w*)\+?=")


class Match(IntEnum):
    """Results of matching a rule against a command."""

    NO = 0
    PERHAPS = 1
    YES = 2


@dataclass(frozen=True)
class Fact:
    """A command with the properties that rules check. `folders` are the folders that the script changes to."""

    command: Command
    folders: tuple[FoundPath, ...] = ()
    reading: Reading | None = None
    """The script that the command reads, if its words do not contain the script."""
    substituted: frozenset[str] = frozenset()
    """The programs in all substitutions of the script."""
    bodies: Mapping[str, str] = field(default_factory=dict)
    """The text of each function of the script."""

    @cached_property
    def options(self) -> tuple[Field, ...]:
        """The words that look like options."""
        return tuple(each for each in self._iter_before_dashes() if each.text.startswith("-") and len(each.text) > 1)

    @cached_property
    def operands(self) -> tuple[Field, ...]:
        """The words that are neither options nor values of known options."""
        values, found = VALUE_OPTIONS.get(self.command.name, ()), []
        skip = after_dashes = False
        for each in self.command.arguments:
            if skip:
                skip = False
            elif each.text == "--" and not after_dashes:
                after_dashes = True
            elif each.text.startswith("-") and len(each.text) > 1 and not after_dashes:
                skip = each.text in values
            else:
                found.append(each)
        return tuple(found)

    @cached_property
    def relevant_words(self) -> tuple[Field, ...]:
        """The words that may name a file or contain a statement: all except text to print or to search for."""
        command = self.command
        words = list(command.arguments)
        if command.name in PRINTERS and not command.piped:
            return ()
        if command.name in SEARCHERS:
            return tuple(_without_pattern(words))
        prose = PROSE.get(command.name, ())
        return tuple(each for at, each in enumerate(words) if not at or words[at - 1].text not in prose)

    @cached_property
    def paths(self) -> tuple[FoundPath, ...]:
        """Every path that the command may name."""
        targets = (each.target for each in self.command.redirects if not each.target.text.isdigit())
        relevant_words = (*self.command.words[:1], *self.relevant_words, *targets)
        return tuple(dict.fromkeys(iter_paths(relevant_words, self.folders)))

    @cached_property
    def written(self) -> tuple[FoundPath, ...]:
        """Every path that the command may write."""
        return tuple(dict.fromkeys(iter_paths(self.written_words, self.folders)))

    @cached_property
    def written_words(self) -> tuple[Field, ...]:
        """The words that name written files."""
        command, words = self.command, self.command.arguments
        found = [each.target for each in command.redirects if each.writes]
        if command.name in WRITERS["all"] or (
            command.name in WRITERS["in_place"] and any(_IN_PLACE.match(each.text) for each in words)
        ):
            found += self.operands
        elif command.name in WRITERS["last"]:
            found += self.operands[-1:]
        for at, each in enumerate(words):
            option, _, value = each.text.partition("=")
            if option in WRITERS["options"]:
                found += [Field(value)] if value else words[at + 1 : at + 2]
            elif option[:2] in WRITERS["options"] and option[:2] != "--":
                found.append(Field(each.text[2:]))
            elif each.text.startswith("of="):
                found.append(Field(each.text[3:]))
            elif command.name == "curl" or (fits(command.name, KNOWN["writers"]) and command.name not in SINGLE_DASH):
                found += map(Field, _iter_option_values(each.text, _WRITING, words[at + 1 : at + 2]))
        return tuple(found)

    @cached_property
    def statements(self) -> str:
        """All text of the command that may contain a statement of a different language."""
        reads = self.command.stdin or ""
        if self.command.name in ("cat", "tee") and not self.command.piped:
            reads = ""
        return "\n".join([*(each.text for each in self.relevant_words), reads])

    def _iter_before_dashes(self) -> Iterator[Field]:
        for each in self.command.arguments:
            if each.text == "--":
                return
            yield each


def match(rule: Rule, fact: Fact) -> Match:
    """Return how a rule matches a command: the weakest result of all properties of the rule."""
    if not rule.has_program(fact.command.name):
        return Match.NO
    return min(_match_parts(rule, fact), default=Match.YES)


def _match_parts(rule: Rule, fact: Fact) -> Iterator[Match]:
    """Yield the result for each property of a rule."""
    if rule.words:
        yield _match_first_operands(rule, fact)
    for group in rule.flags:
        yield _has_flag(group, fact, perhaps=rule.unknown)
    if rule.operand:
        yield _has_word(rule, fact)
    if rule.absent:
        yield _to_match(not any(re.search(rule.absent, each.text) for each in fact.command.arguments))
    if rule.option_value is not None:
        yield _has_value(rule.option_value, fact)
    if rule.path:
        yield _has_path(rule, fact)
    if rule.reads_script:
        yield _reads(rule, fact)
    if rule.structure:
        yield _to_match(_starts_itself(fact))
    yield from _match_words(rule, fact)


def _match_words(rule: Rule, fact: Fact) -> Iterator[Match]:
    command = fact.command
    unknown = any(ANY in each.text or DECODED in each.text for each in command.arguments)
    if rule.assigns:
        yield _to_match(any(fits(name, rule.assigns) for name in _set_variables(command)))
    if rule.substitutes:
        yield _to_match(command.substituted and fits(command.name, rule.substitutes))
    if rule.statement:
        yield _to_match(rule.statement_expression.search(fact.statements) is not None)
    if rule.unknown_word:
        yield _to_match(unknown)
    if rule.made_word:
        yield _to_match(unknown and bool(fact.substituted))
    if rule.decoded_word:
        yield _to_match(command.name not in PRINTERS and any(DECODED in each.text for each in command.words))


def _to_match(holds: bool) -> Match:
    return Match.YES if holds else Match.NO


def _match_first_operands(rule: Rule, fact: Fact) -> Match:
    found = fact.operands[: len(rule.words)]
    if len(found) < len(rule.words):
        return Match.NO
    if any(not each.known for each in found):
        return Match.PERHAPS
    return _to_match(all(re.fullmatch(wanted, each.text) for each, wanted in zip(found, rule.words, strict=True)))


def _has_flag(group: tuple[str, ...], fact: Fact, *, perhaps: bool) -> Match:
    found = Match.NO
    for each in fact.command.arguments:
        if perhaps and each.open_start:
            found = max(found, Match.PERHAPS)
    for each in fact.options:
        text = each.text
        if any(_is_flag(text, name) for name in group):
            return Match.YES
        if not UNKNOWN.isdisjoint(text.partition("=")[0]):
            found = max(found, Match.PERHAPS)
    return found


def _is_flag(text: str, name: str) -> bool:
    """Return whether an option has this name: as a letter in a cluster, `--name` or its prefix, or `-name`."""
    if name.startswith("-"):
        return text == name
    if text.startswith("--"):
        given = text[2:].partition("=")[0]
        return len(name) > 1 and bool(given) and name.startswith(given)
    return name in text[1:] if len(name) == 1 else text[1:].partition("=")[0] == name


def _has_word(rule: Rule, fact: Fact) -> Match:
    found = Match.NO
    for each in fact.relevant_words if rule.programs else fact.command.arguments:
        if rule.operand_expression.search(each.text):
            return Match.YES
        if rule.unknown and each.open_start:
            found = Match.PERHAPS
    return found


def _has_value(option: OptionValue, fact: Fact) -> Match:
    found = Match.NO
    words = fact.command.arguments
    for at, each in enumerate(words):
        for value in _iter_option_values(each.text, option.names, words[at + 1 : at + 2]):
            if option.value.search(value):
                return Match.YES
            if value[:1] in (ANY, DECODED):
                found = Match.PERHAPS
    return found


def _iter_option_values(text: str, names_of: frozenset[str], following: tuple[Field, ...]) -> Iterator[str]:
    if text.startswith("--"):
        name, equals, value = text[2:].partition("=")
        if len(name) > 1 and any(each.startswith(name) for each in names_of if len(each) > 1):
            yield value if equals else following[0].text if following else ""
    elif text.startswith("-"):
        for at, letter in enumerate(text[1:], 1):
            if letter in names_of:
                yield text[at + 1 :] or (following[0].text if following else "")
                return


def _has_path(rule: Rule, fact: Fact) -> Match:
    paths = fact.written if rule.writes else fact.paths
    if any(path_matches(path, pattern, certain=True) for path in paths for pattern in rule.path):
        return Match.YES
    below = rule.path
    if rule.writes and fact.command.words and not _has_known_writes(fact.command.name):
        paths = fact.paths  # each path that it names may be written; the system's folders are read-only
        below = tuple(each for each in rule.path if each == "identity" or each.startswith("**/"))
    perhaps = any(path_matches(path, pattern, certain=False) for path in paths for pattern in below)
    return Match.PERHAPS if perhaps else Match.NO


def _has_known_writes(name: str) -> bool:
    """Return whether `Fact.written` has every file that a program writes."""
    return fits(name, KNOWN["readers"]) or any(name in names for names in WRITERS.values())


def _set_variables(command: Command) -> Iterator[str]:
    """Yield the variables that a command sets for later commands; IFS for a single `read` is excluded."""
    for name in command.assigns:
        if not (name == "IFS" and command.name in ("read", "mapfile", "readarray")):
            yield name
    if command.name in _SETTING:
        for each in command.arguments:
            found = _VARIABLE.match(each.text)
            yield found.group(1) if found else each.text


def _reads(rule: Rule, fact: Fact) -> Match:
    if fact.reading is None:
        return Match.NO
    sources = {each.name for each in fact.command.upstream}
    if fact.reading.unread:
        sources |= fact.substituted
        sources.discard("")
    if rule.unread:
        return Match.YES
    return _to_match(any(fits(name, rule.sources) for name in sources) if sources else False)


def _starts_itself(fact: Fact) -> bool:
    """Return whether a command is a function that calls itself, directly or indirectly, in the background or a pipe."""
    bodies = fact.bodies
    if fact.command.name not in bodies:
        return False
    calls = {name: {other for other in bodies if _mentions(body, other)} for name, body in bodies.items()}
    reached: set[str] = set()
    waiting = [fact.command.name]
    while waiting:
        for other in calls[waiting.pop()] - reached:
            reached.add(other)
            waiting.append(other)
    loops = fact.command.name in reached
    return loops and any(re.search(r"[&|]", bodies[name]) for name in reached)


def _mentions(body: str, name: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", body) is not None


def _without_pattern(words: list[Field]) -> list[Field]:
    """Return the words of a search command without the search pattern, or all words if that is ambiguous."""
    for at, each in enumerate(words):
        if each.text in ("-e", "--regexp") and at + 1 < len(words):
            return [*words[:at], *words[at + 2 :]]
        if not each.text.startswith("-"):
            return [*words[:at], *words[at + 1 :]]
        if not _PLAIN_SEARCH.fullmatch(each.text):
            return words
    return words
