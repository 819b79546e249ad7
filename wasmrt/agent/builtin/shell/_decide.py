"""The decision about a command line before it runs: run it, require approval, or refuse it.

SECURITY: confinement is the security boundary. These layers protect the files that confinement allows a command to
change. They refuse commands that should never be approved, without requesting an approval.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from wasmrt.agent.builtin.shell._commands import Command, Inner, NotUnderstoodError, Reading, Script, inner_commands
from wasmrt.agent.builtin.shell._lists import (
    CODE_ASKS,
    COMPILERS,
    FIXED_VARIABLES,
    INHERITED_VARIABLES,
    LAYERS,
    PRIVATE_VARIABLES,
    SHELLS,
    interpreter,
)
from wasmrt.agent.builtin.shell._match import Fact, Match, match
from wasmrt.agent.builtin.shell._paths import FoundPath, paths_in
from wasmrt.agent.builtin.shell._reader import read_script
from wasmrt.agent.builtin.shell._session import WORKSPACE, Start
from wasmrt.agent.builtin.shell._verdict import Action, Verdict
from wasmrt.agent.builtin.shell._words import UNKNOWN

MAX_COMMAND_CHARS = 16_384
_MAX_COMMANDS = 2_000
_MAX_DEPTH = 8
_VARIABLES = frozenset((*INHERITED_VARIABLES, *PRIVATE_VARIABLES, *FIXED_VARIABLES))
_SOURCING = ("source", ".")
_RUNS = Verdict(Action.RUN)


class _Facts:
    """All commands of a command line, including nested ones, with the facts that rules check."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self.facts: list[Fact] = []
        self.asks: list[Verdict] = []
        self._count = 0

    def add(self, text: str, depth: int = 0) -> None:
        """Parse a script and the scripts that it starts.

        Raises:
            NotUnderstoodError: it cannot be parsed unambiguously.
        """
        if depth > _MAX_DEPTH:
            raise NotUnderstoodError("scripts are nested too deeply")
        given = dict(self._start.variables)
        script = read_script(text, environment=_VARIABLES, given=given, nested=depth > 0)
        folders = tuple(_folders(script.commands, tuple(self._start.folders())))
        programs = frozenset(each.name for each in script.commands if each.substituted)
        waiting: list[Command] = list(script.commands)
        while waiting:
            self._count += 1
            if self._count > _MAX_COMMANDS:
                raise NotUnderstoodError("it has too many commands")
            command = waiting.pop()
            fact = Fact(command, folders, None, programs, script.bodies)
            self.facts.append(fact)
            for inner in inner_commands(command):
                if isinstance(inner, Command):
                    waiting.append(inner)
                elif isinstance(inner, Reading):
                    self.facts.append(Fact(command, folders, inner, programs, script.bodies))
                else:
                    self._text(inner, depth)
        self._note(script)

    def _text(self, inner: Inner, depth: int) -> None:
        if not inner.language:
            self.add(inner.text, depth + 1)
        elif (found := CODE_ASKS.search(inner.text)) is not None:
            shown = "text that is unknown until it runs" if found.group(0) in UNKNOWN else f"{found.group(0)!r:.40}"
            self.asks.append(_asks("code", f"it runs {inner.language} code that contains {shown}", inner.of.text))

    def _note(self, script: Script) -> None:
        for note in script.notes:
            self.asks.append(_asks("redefinition", f"it contains {note}", ""))
        for command in script.commands:
            if command.name in ("declare", "local", "typeset") and any(
                each.text.startswith("-") and "n" in each.text for each in command.arguments
            ):
                self.asks.append(_asks("redefinition", "it contains a reference to another variable", command.text))


@lru_cache(maxsize=32)  # a registry decides several times for each call
def decide_command(text: str, start: Start = WORKSPACE) -> Verdict:
    """Decide about a command line that starts in the state `start`: by the grammar, then by the four lists in order.

    A refusal by any list takes precedence over approval. Runs nothing.
    """
    problem = _unreadable(text)
    if problem is not None:
        return problem
    found = _Facts(start)
    try:
        found.add(text)
    except (NotUnderstoodError, RecursionError) as error:
        reason = f"it cannot be parsed unambiguously: {error}" if str(error) else "it is nested too deeply"
        return Verdict(Action.REFUSE, "grammar", "not-understood", reason, text[:200])
    asks = list(found.asks)
    for layer, rules in LAYERS.items():
        refuses = layer != "approval"
        for rule in rules:
            for fact in found.facts:
                holds = match(rule, fact)
                if holds is Match.NO:
                    continue
                if holds is Match.YES and refuses:
                    return Verdict(Action.REFUSE, layer, rule.id, rule.why, fact.command.text)
                may = rule.why if holds is Match.YES else f"part of it is unknown until it runs; possibly, {rule.why}"
                asks.append(Verdict(Action.ASK, layer, rule.id, may, fact.command.text))
    asks += _by_grammar(found.facts)
    certain = (each for each in asks if each.layer == "approval")
    return next(certain, asks[0] if asks else _RUNS)


def _unreadable(text: str) -> Verdict | None:
    if "\0" in text:
        return Verdict(Action.REFUSE, "injection", "null-byte", "it contains a null byte", "")
    if len(text) > MAX_COMMAND_CHARS:
        reason = f"it is longer than {MAX_COMMAND_CHARS:,} characters; write a script file and run it"
        return Verdict(Action.REFUSE, "grammar", "too-long", reason, "")
    if any(unicodedata.category(each) in ("Cc", "Cs") and each not in "\t\n" for each in text):
        return Verdict(Action.REFUSE, "grammar", "control-character", "it contains a control character", "")
    if any(unicodedata.category(each) in ("Cf", "Zl", "Zp", "Co") for each in text):
        return Verdict(Action.REFUSE, "grammar", "invisible-character", "it contains an invisible character", "")
    return None


def _by_grammar(facts: list[Fact]) -> Iterator[Verdict]:
    """Yield the commands that always require approval: the program is unknown, or the same script wrote it."""
    writing = [fact for fact in facts if fact.command.name not in COMPILERS or fact.command.redirects]
    written = {path.parts[-1] for fact in writing for path in fact.written if path.parts}
    for fact in facts:
        command = fact.command
        if command.words and not command.words[0].known:
            yield _asks("unknown-program", "it runs a program whose name is unknown until it runs", command.text)
        elif command.words and _runs_one_of(fact, written):
            yield _asks("written-first", "it runs a file that it writes itself", command.text)


def _runs_one_of(fact: Fact, written: set[str]) -> bool:
    command = fact.command
    runs = [command.name] if "/" in command.words[0].text else []
    if command.name in SHELLS or command.name in _SOURCING or interpreter(command.name) is not None:
        runs += [each.text.rpartition("/")[2] for each in command.arguments if each.text[:1] != "-"]
    return any(each in written for each in runs)


def _folders(commands: Iterable[Command], start: tuple[FoundPath, ...]) -> Iterator[FoundPath]:
    """Yield the folders that a script starts in and changes to: relative paths may start from there."""
    known = list(start)
    for command in commands:
        words = command.arguments
        targets = (
            [each for each in words if not each.text.startswith("-")][:1] if command.name in ("cd", "pushd") else []
        )
        targets += [after for at, after in pairwise(words) if at.text in ("-C", "--chdir", "--directory")]
        known += paths_in(targets, tuple(known))
    yield from dict.fromkeys(known)


def _asks(rule: str, reason: str, part: str) -> Verdict:
    return Verdict(Action.ASK, "grammar", rule, reason, part)
