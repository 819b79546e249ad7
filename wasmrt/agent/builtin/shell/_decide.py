"""The decision about a command line before it runs: run it, require approval, or refuse it.

SECURITY: confinement is the security boundary. These layers protect the files that confinement allows a command to
change. They refuse commands that should never be approved, without requesting an approval.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from wasmrt.agent.builtin.shell._code import is_known_code
from wasmrt.agent.builtin.shell._commands import Command, Inner, NotUnderstoodError, Reading, Script, inner_commands
from wasmrt.agent.builtin.shell._executed import may_be_code
from wasmrt.agent.builtin.shell._known import (
    ANYTHING,
    checkout_words,
    find_problem,
    kind_of,
    loses_files,
    may_run,
    runs_workspace_code,
    truncates_files,
    written_names,
)
from wasmrt.agent.builtin.shell._latent import evaluated_words
from wasmrt.agent.builtin.shell._lists import FIXED_VARIABLES, INHERITED_VARIABLES, LAYERS, PRIVATE_VARIABLES
from wasmrt.agent.builtin.shell._match import Fact, Match, match
from wasmrt.agent.builtin.shell._paths import FoundPath, iter_paths
from wasmrt.agent.builtin.shell._reader import read_script
from wasmrt.agent.builtin.shell._session import WORKSPACE, State
from wasmrt.agent.builtin.shell._verdict import Action, Verdict

MAX_COMMAND_CHARS = 16_384
_MAX_COMMANDS = 2_000
_MAX_DEPTH = 8
_VARIABLES = frozenset((*INHERITED_VARIABLES, *PRIVATE_VARIABLES, *FIXED_VARIABLES))
_UNORDERED = re.compile(r"(?<!&)&(?![&>0-9])|\b(for|while|until|function|trap|coproc|select)\b|\(\s*\)")
"""Text of scripts whose commands may run in a different order."""
_RUNS = Verdict(Action.RUN)


class _Facts:
    """All commands of a command line, including nested ones, with the facts that rules check."""

    def __init__(self, start: State) -> None:
        self._start = start
        self.facts: list[Fact] = []
        self.asks: list[Verdict] = []
        self._count = 0
        self.nested = False

    def add(self, text: str, depth: int = 0) -> None:
        """Parse a script and the scripts that it starts.

        Raises:
            NotUnderstoodError: a script cannot be parsed unambiguously.
        """
        if depth > _MAX_DEPTH:
            raise NotUnderstoodError("scripts are nested too deeply")
        self.nested = self.nested or depth > 0
        given = dict(self._start.variables)
        script = read_script(text, environment=_VARIABLES, given=given, nested=depth > 0)
        folders = tuple(_iter_folders(script.commands, tuple(self._start.folders())))
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
        elif not is_known_code(inner.language, inner.text):
            reason = f"it runs {inner.language} code that is not known to be harmless"
            self.asks.append(_asks("code", reason, inner.of.text))

    def _note(self, script: Script) -> None:
        for part in script.evaluated:
            self.asks.append(_asks("latent-code", "the shell evaluates a value, which may contain code", part))
        for note in (*script.notes, *_iter_misleading_functions(script)):
            self.asks.append(_asks("redefinition", f"it contains {note}", ""))
        for command in script.commands:
            if command.name in ("declare", "local", "typeset") and any(
                each.text.startswith("-") and "n" in each.text for each in command.arguments
            ):
                self.asks.append(_asks("redefinition", "it contains a reference to another variable", command.text))


@lru_cache(maxsize=32)  # a registry decides several times for each call
def decide_command(text: str, start: State = WORKSPACE, programs: tuple[str, ...] = ()) -> Verdict:
    """Decide about a command line by the grammar, and then by the four lists in order.

    The command line starts in the state `start`. If any list refuses it, it is refused, even if another list requires
    an approval. A command that is not known to be harmless requires an approval. `programs` has the names that the
    operator added to the known programs. This function runs nothing.
    """
    problem = _decide_unreadable(text)
    if problem is not None:
        return problem
    try:
        found = _find_facts(text, start)
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
    asks += _decide_by_grammar(found.facts, programs)
    asks += _decide_written_first(found.facts, start, programs, ordered=not (found.nested or _UNORDERED.search(text)))
    certain = (each for each in asks if each.layer == "approval")
    return next(certain, asks[0] if asks else _RUNS)


def runs_code(text: str, start: State = WORKSPACE, programs: tuple[str, ...] = ()) -> bool:
    """Return whether a command line may run code of the workspace. The line must be parsable."""
    return any(runs_workspace_code(fact.command, programs) for fact in _find_facts(text, start).facts)


def files_to_run(text: str, start: State, programs: tuple[str, ...] = ()) -> Iterator[FoundPath]:
    """Yield the workspace paths in a command line that may name files to run."""
    try:
        facts = _find_facts(text, start).facts
    except (NotUnderstoodError, RecursionError):
        return  # it is refused
    found: dict[FoundPath, None] = {}
    for fact in facts:
        if runs_workspace_code(fact.command, programs):
            words = [each for each in fact.command.words if each.known and may_be_code(each.text)]
            found |= dict.fromkeys(iter_paths(words, (*start.folders(), *fact.folders)))
    yield from (each for each in found if each.parts and not each.absolute and not each.home and not each.climbed)


def restored_paths(text: str, start: State) -> Iterator[FoundPath]:
    """Yield the paths that a command line restores from git if they exist, and if no branch has this name."""
    for fact in _find_facts(text, start).facts:
        yield from iter_paths(checkout_words(fact), (*start.folders(), *fact.folders))


@lru_cache(maxsize=32)
def _find_facts(text: str, start: State) -> _Facts:
    """Return the commands of a command line. The result is shared, and must not be changed.

    Raises:
        NotUnderstoodError: the command line cannot be parsed unambiguously.
    """
    found = _Facts(start)
    found.add(text)
    return found


def _decide_unreadable(text: str) -> Verdict | None:
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


def _iter_misleading_functions(script: Script) -> Iterator[str]:
    """Yield functions named like a listed program, and functions that a command calls before they exist."""
    for name, place in script.defined.items():
        if kind_of(name) is not None:
            yield f"a function with the name of a program, {name}"
        elif any(
            command.name == name
            and command.start < place.start
            and not any(command.start in other for other in script.defined.values())
            for command in script.commands
        ):
            yield f"a function that may not exist yet, {name}"


def _decide_by_grammar(facts: list[Fact], programs: tuple[str, ...]) -> Iterator[Verdict]:
    """Yield the commands that are not known to be harmless."""
    for fact in facts:
        command = fact.command
        if command.words and not command.words[0].known:
            yield _asks("unknown-program", "it runs a program whose name is unknown until it runs", command.text)
        elif (problem := find_problem(fact, programs)) is not None:
            yield _asks(problem.rule, problem.reason, command.text)
        if truncates_files(fact):
            yield _asks("truncates", "it truncates a file", command.text)
        if loses_files(fact):
            yield _asks("loses-files", "it overwrites files or moves them away, with unknown names", command.text)
        for _ in evaluated_words(fact):
            reason = f"{command.name} evaluates its arguments, which may contain code"
            yield _asks("latent-code", reason, command.text)


def _decide_written_first(
    facts: list[Fact], start: State, programs: tuple[str, ...], *, ordered: bool
) -> Iterator[Verdict]:
    """Yield the commands that may run a file that the script, or an earlier command of the session, wrote.

    If `ordered` is true, commands run in the order of the text.
    """
    written = list(written_names(facts))
    for fact in facts:
        if not runs_workspace_code(fact.command, programs):
            continue
        if start.written:
            reason = f"it may run files that commands of this conversation changed: {', '.join(start.written[:3])}"
            yield _asks("written-first", reason, fact.command.text)
        own = {each.target.text.rpartition("/")[2] for each in fact.command.redirects}
        for writer, name in written:
            if (
                writer is fact
                or name in own
                or not may_run(fact.command, name)
                or (ordered and writer.command.start > fact.command.start)
            ):
                continue
            shown = "files" if name == ANYTHING else repr(name)
            yield _asks("written-first", f"it may run {shown} that the same command line writes", fact.command.text)


def _iter_folders(commands: Iterable[Command], start: tuple[FoundPath, ...]) -> Iterator[FoundPath]:
    """Yield the folders that a script starts in and changes to: relative paths may start from there."""
    known = list(start)
    for command in commands:
        words = command.arguments
        targets = (
            [each for each in words if not each.text.startswith("-")][:1] if command.name in ("cd", "pushd") else []
        )
        targets += [after for at, after in pairwise(words) if at.text in ("-C", "--chdir", "--directory")]
        known += iter_paths(targets, tuple(known))
    yield from dict.fromkeys(known)


def _asks(rule: str, reason: str, part: str) -> Verdict:
    return Verdict(Action.ASK, "grammar", rule, reason, part)
