"""Simple commands of a script, and the commands that they start in turn (env, xargs, find -exec, sh -c)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from wasmrt.agent.builtin.shell._lists import SHELLS, find_interpreter, wrapper
from wasmrt.agent.builtin.shell._words import ANY, DECODED, UNKNOWN, Field


class NotUnderstoodError(Exception):
    """A script cannot be parsed unambiguously; the message names the part."""


class Redirect(NamedTuple):
    """One redirection; its target is one field, or a descriptor's number."""

    operator: str
    target: Field

    @property
    def writes(self) -> bool:
        """True if the redirection opens a file for writing."""
        return ">" in self.operator and not (self.operator in (">&", "<&") and self.target.text.isdigit())

    @property
    def truncates(self) -> bool:
        """True if the redirection empties a file that may exist."""
        return self.operator in (">", ">|", "&>") and not self.target.text.startswith("/dev/")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """Redirections and pipes that apply to a command, or to everything inside a construct."""

    redirects: tuple[Redirect, ...] = ()
    upstream: tuple[Command, ...] = ()
    """The earlier commands of the pipeline, whose output the command reads."""
    stdin: str | None = None
    """The text of the command's here-document or here-string."""
    substituted: bool = False
    """True if the command's output becomes part of a command line."""
    piped: bool = False
    """True if another command reads the command's output."""
    start: int = 0
    """The command's position in the script."""


@dataclass(frozen=True, slots=True)
class Command(CommandContext):
    """One simple command, with one of its possible expansions."""

    words: tuple[Field, ...]
    text: str
    """The command's text in the script."""
    assigns: tuple[str, ...] = ()
    inherited: frozenset[str] = frozenset()
    """Names of the commands that start this command and supply some of its words, such as "xargs" and "find"."""

    @property
    def name(self) -> str:
        """The program's name without its folder; unknown parts are marked."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def arguments(self) -> tuple[Field, ...]:
        """The words after the name."""
        return self.words[1:]

    def running(self, words: tuple[Field, ...], by: str = "") -> Command:
        """Return the command of `words` that this command starts."""
        return replace(self, words=words, inherited=self.inherited | {by} if by else self.inherited)


@dataclass(slots=True)
class Script:
    """Everything that a script would run, in no particular order."""

    commands: list[Command] = field(default_factory=list)
    bodies: dict[str, str] = field(default_factory=dict)
    """The text of each function."""
    defined: dict[str, range] = field(default_factory=dict)
    """The position of the first definition of each function."""
    notes: list[str] = field(default_factory=list)
    """Constructs that change the meaning of the rest of the script."""
    evaluated: list[str] = field(default_factory=list)
    """Parts that bash evaluates and whose values may contain code."""


_EXECUTING = ("-exec", "-execdir", "-ok", "-okdir")
_FD_EXECUTING = ("-x", "-X", "--exec", "--exec-batch")
_STANDARD_INPUT = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_SHELL_VALUES = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")
_CODE = re.compile(r"[{(|\"\x00\x03]")


class Inner(NamedTuple):
    """A script that a command passes to a shell or another interpreter."""

    text: str
    of: Command
    language: str = ""
    """The interpreter's name; empty for a shell."""


class Reading(NamedTuple):
    """A command that runs a script which is not part of its words."""

    of: Command
    unread: bool
    """True if the words or the input are computed at run time, and not only by the pipeline."""


def inner_commands(command: Command) -> Iterator[Command | Inner | Reading]:
    """Yield the commands and scripts that a command starts, according to its words."""
    name, words = command.name, command.arguments
    if name in ("find", "fd", "fdfind"):
        yield from _read_find_commands(command, words)
    elif name == "trap" and words and words[0].text not in ("-", "-l", "-p"):
        yield from _read_text(command, words[0])
    elif name in ("source", "."):
        yield from _read_sourced_scripts(command, words)
    elif name == "env":
        yield from _read_env_commands(command, list(words))
    elif name in SHELLS:
        yield from _read_shell(command, words)
    elif (found := find_wrapper(name, words)) is not None:
        form, words = found
        yield from _read_wrapped_commands(command, list(words), form)
    elif (options := find_interpreter(name)) is not None:
        yield from _read_interpreter_code(command, words, options)


def find_wrapper(name: str, words: tuple[Field, ...]) -> tuple[Mapping[str, Any], tuple[Field, ...]] | None:
    """Return how a program parses its words if it starts another program, and the words after its subcommand."""
    if (form := wrapper(name)) is not None:
        return form, words
    if words and (form := wrapper(f"{name} {words[0].text}")) is not None:
        return form, words[1:]
    return None


def is_standard_input(field: Field) -> bool:
    """Return whether a word names the standard input or a descriptor created by a substitution."""
    return field.text in _STANDARD_INPUT or field.text.startswith(("/dev/fd/", "/proc/self/fd/"))


def _read_text(command: Command, field: Field) -> Iterator[Inner | Reading]:
    if ANY in field.text or DECODED in field.text:
        yield Reading(command, unread=True)
    else:
        yield Inner(field.text, command)


def _read_input(command: Command, language: str = "") -> Iterator[Inner | Reading]:
    """Yield the script read from the standard input."""
    reads_file = any(each.operator.startswith("<") for each in command.redirects)
    if command.upstream and command.stdin is None:
        yield Reading(command, unread=False)
    elif command.stdin is not None and ANY not in command.stdin and not reads_file:
        yield Inner(command.stdin, command, language)
    elif command.stdin is not None or reads_file or "xargs" in command.inherited:
        yield Reading(command, unread=True)


def _read_shell(command: Command, words: tuple[Field, ...]) -> Iterator[Inner | Reading]:
    waiting = list(words)
    has_text = from_input = False
    while waiting and (waiting[0].text[:1] in ("-", "+") and waiting[0].text not in ("-", "--")):
        option = waiting.pop(0).text
        cluster = option[1:] if not option.startswith("--") else ""
        has_text = has_text or (option[0] == "-" and "c" in cluster)
        from_input = from_input or "s" in cluster or "i" in cluster
        if not UNKNOWN.isdisjoint(option):
            yield Reading(command, unread=True)
            return
        if (option in _SHELL_VALUES or (cluster and cluster[-1] in "oO")) and waiting:
            waiting.pop(0)
    if waiting and waiting[0].text in ("--", "-") and len(waiting) > 1:
        waiting.pop(0)
    if has_text and waiting:
        yield from _read_text(command, waiting[0])
    elif from_input or not waiting or is_standard_input(waiting[0]):
        yield from _read_input(command)
        if waiting and waiting[0].text.startswith("/dev/fd/"):
            yield Reading(command, unread=True)
        for each in waiting:
            yield from _check_substitution(command, each)
    elif not waiting[0].known:
        yield Reading(command, unread=True)


def _check_substitution(command: Command, field: Field) -> Iterator[Reading]:
    if ANY in field.text and is_standard_input(field):
        yield Reading(command, unread=True)


def _read_sourced_scripts(command: Command, words: tuple[Field, ...]) -> Iterator[Inner | Reading]:
    if words and is_standard_input(words[0]):
        yield from _read_input(command)
        yield from _check_substitution(command, words[0])
    elif words and not words[0].known:
        yield Reading(command, unread=True)


def _read_interpreter_code(command: Command, words: tuple[Field, ...], options: list[str]) -> Iterator[Inner | Reading]:
    if not options:  # awk and similar: the program is an operand, after options that may have values
        yield from (Inner(word.text, command, command.name) for word in words if _CODE.search(word.text))
        return
    found = False
    operands: list[Field] = []
    letters = {option[1] for option in options if len(option) == 2}
    for index, word in enumerate(words):
        text = word.text
        long = text.partition("=")[0]
        is_cluster = re.fullmatch(r"-[a-zA-Z]{2,}", text) is not None and text[-1] in letters
        if long in options or is_cluster:
            found = True
            value = text.partition("=")[2] or (words[index + 1].text if index + 1 < len(words) else ANY)
            yield Inner(value, command, command.name)
        elif len(text) > 2 and text[:2] in options and text[0] == "-" and text[1] != "-":
            found = True
            yield Inner(text[2:], command, command.name)
        elif text[:1] != "-" or text == "-":
            operands.append(word)
    has_module = any(word.text.startswith("-m") for word in words)
    asks_version = any(word.text in ("--version", "-V", "--help", "-h", "-v") for word in words)
    if not found and not has_module and not asks_version and (not operands or is_standard_input(operands[0])):
        yield from _read_input(command, command.name)
        if operands:
            yield from _check_substitution(command, operands[0])
    elif not found and operands and not operands[0].known and not has_module:
        yield Inner(operands[0].text, command, command.name)


def _read_wrapped_commands(
    command: Command, words: list[Field], form: Mapping[str, Any]
) -> Iterator[Command | Inner | Reading]:
    name = command.name
    if name == "command" and words and re.fullmatch("-[vVp]*[vV][vVp]*", words[0].text):
        return
    for flag, text in pairwise(words) if name in ("flock", "script") else ():
        if re.fullmatch("-[a-z]*c|--command", flag.text):
            yield from _read_text(command, text)
    placeholder = _find_placeholder(name, words)
    while words and words[0].text.startswith("-") and words[0].text != "--":
        option = words.pop(0).text
        if option in form["values"] and words:
            words.pop(0)
        elif len(words) > 1 and not re.fullmatch(form.get("flags", ""), option[1:]):
            # SECURITY: an unknown option may take a value; then the command starts one word later.
            yield command.running(tuple(words[1:]), name)
    if words and words[0].text == "--":
        words.pop(0)
    words = _without_assignments(words)[1][form["skip"] :]
    if name in ("xargs", "parallel"):
        words = _append_stdin_words(words, placeholder)
    if name == "watch" and words:
        yield Inner(" ".join(word.text for word in words), command)
    elif words:
        yield command.running(tuple(words), name)


def _find_placeholder(name: str, words: list[Field]) -> str:
    """Return the placeholder for words from the standard input; empty if they are appended."""
    if name == "parallel":
        return "{}"
    for word, following in pairwise((*words, Field(""))) if name == "xargs" else ():
        if word.text == "-I":
            return following.text or "{}"
        if re.match("-[iI]|--replace", word.text):
            return (word.text[2:] if word.text[1] != "-" else word.text.partition("=")[2]) or "{}"
    return ""


def _append_stdin_words(words: list[Field], placeholder: str) -> list[Field]:
    """Return a command line with the words from the standard input inserted."""
    if not words:
        return words
    if placeholder:
        return [Field(word.text.replace(placeholder, ANY), word.splits) for word in words]
    return [*words, Field(ANY, splits=True)]


def _read_env_commands(command: Command, words: list[Field]) -> Iterator[Command | Inner | Reading]:
    while words and words[0].text.startswith("-") and words[0].text != "--":
        option = words.pop(0).text
        if re.match(r"-[iv0]*S|--s", option):  # "--s" abbreviates --split-string
            first = option.partition("S")[2] if option[1] != "-" else option.partition("=")[2]
            text = " ".join([first, *(word.text for word in words)])
            yield from _read_text(command, Field(text))
            return
        if option in ("-u", "-C", "--unset", "--chdir") and words:
            words.pop(0)
    if words and words[0].text == "--":
        words.pop(0)
    names, rest = _without_assignments(words)
    if names or rest:
        yield replace(command.running(tuple(rest), "env"), assigns=(*command.assigns, *names))


def _without_assignments(words: list[Field]) -> tuple[tuple[str, ...], list[Field]]:
    names: list[str] = []
    for index, word in enumerate(words):
        found = _ASSIGNMENT.match(word.text)
        if found is None:
            return tuple(names), words[index:]
        names.append(found.group(1))
    return tuple(names), []


def _read_find_commands(command: Command, words: tuple[Field, ...]) -> Iterator[Command]:
    """Yield the commands after -exec and similar options; the files found are below the named folders."""
    options = _EXECUTING if command.name == "find" else _FD_EXECUTING
    for index, word in enumerate(words):
        if word.text in options:
            rest = list(words[index + 1 :])
            end = next((at for at, each in enumerate(rest) if each.text in (";", "+")), len(rest))
            run = [Field(each.text.replace("{}", "./" + ANY), each.splits) for each in rest[:end]]
            if command.name != "find" and not any("{" in each.text for each in rest[:end]):
                run.append(Field("./" + ANY, splits=True))
            if run:
                yield command.running(tuple(run), "find")
