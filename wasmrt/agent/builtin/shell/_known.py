"""Programs in `lists/known.toml` run without an approval if a rule allows the shell.

Every other program requires an approval. A listed program also requires an approval if its arguments start programs,
delete files or become code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain, pairwise
from typing import NamedTuple, TypeVar

from wasmrt.agent.builtin.shell._code import is_known_sed
from wasmrt.agent.builtin.shell._commands import Command, find_wrapper, is_standard_input
from wasmrt.agent.builtin.shell._executed import may_be_code
from wasmrt.agent.builtin.shell._expressions import printed_text
from wasmrt.agent.builtin.shell._lists import (
    ALIASES,
    ASKS,
    COMPILERS,
    KNOWN,
    OPERANDS,
    OPTION_VALUES,
    PLAIN,
    SHELLS,
    SINGLE_DASH,
    VALUE_OPTIONS,
    find_interpreter,
    fits,
)
from wasmrt.agent.builtin.shell._match import Fact
from wasmrt.agent.builtin.shell._words import ANY, DECODED, NAME_PART, ONE, UNKNOWN, Field, to_words
from wasmrt.core.setting_commands import append_command

_PROMPTS = to_words("tsx ts-node erl ghc gdb deno bun tclsh expect groovy elixir swift r")
"""Programs that run their input if they have no arguments."""
_NAMING = to_words(
    "cp mv ln install rsync uniq xxd gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 uncompress objcopy"
)
"""Programs that write files named like their operands, or like their operands without the last suffix."""
_COPYING = to_words("cp install ln link rsync")
_SILENT = to_words(": true false test [ cd wait set export sleep")
_DATABASES = frozenset(("sqlite3", "psql", "mysql", "mariadb", "redis-cli"))
_SED = frozenset(("sed", "gsed"))
_SED_E = re.compile(r"(?:-[nErsuz]*e|--e[a-z]*(?:=|\Z))(.*)", re.DOTALL)
_GLOBBED = to_words("tar bsdtar gtar rsync zip 7z 7za")
"""Programs with options that run programs. A file that a pattern finds may have such an option as its name."""
_WITH_NAME = ("-m", "-X", "--request")
_GIT_READS = to_words("--get --get-all --get-regexp --get-urlmatch -l --list get list --get-color --get-colorbool")
_GIT_BRANCHES = to_words("-b -B -t --track --orphan --detach -d --no-track")
_GIT_PATH = re.compile(rf"\.[a-z]{{1,5}}\Z|\A[:.]|/\Z|[{''.join(UNKNOWN)}]")
"""Text that no name of a branch can contain."""
_GIT_SETTINGS = re.compile(
    r"(?i)user\.(name|email|signingkey)|color\..*|advice\..*|column\..*|log\..*|branch\.[^.]+\.(remote|merge|rebase)"
    r"|core\.(autocrlf|eol|safecrlf|filemode|ignorecase|quotepath|abbrev|precomposeunicode|longpaths|symlinks|whitespace"
    r"|preloadindex|untrackedcache|compression|bare)|init\.defaultbranch|pull\.(rebase|ff)|push\.(default|autosetupremote"
    r"|followtags)|fetch\.(prune|prunetags|parallel)|merge\.(ff|conflictstyle|renames)|diff\.(algorithm|renames|noprefix"
    r"|colormoved|mnemonicprefix|context|wserrorhighlight)|rebase\.(autosquash|autostash|updaterefs)|rerere\.(enabled"
    r"|autoupdate)|status\..*|commit\.(verbose|gpgsign)|tag\.(sort|gpgsign)|format\.pretty|help\.autocorrect|feature\..*"
    r"|index\.(version|threads)|pack\.(threads|windowmemory)|http\.(postbuffer|sslverify|lowspeed\w*)"
)
"""Settings that start no program and name no file."""
_FIXED_OPTION = re.compile(rf"-(?:[^{''.join(UNKNOWN)}]*\Z|-[\w-]+=|[a-zA-Z])")
"""An option whose name is known. In a cluster of options, at least the first letter is known."""
_SYSTEM = ("", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin")
_LATENT = re.compile(r"\$[({\[]|`|[<>]\(|\[[^\]]*\$")
_UNPACKERS: Mapping[str, re.Pattern[str]] = {
    "tar": re.compile(r"-?[a-zA-Z]*x[a-zA-Z]*|--ex.*|--get"), "gtar": re.compile(r"-?[a-zA-Z]*x[a-zA-Z]*|--ex.*|--get"),
    "bsdtar": re.compile(r"-?[a-zA-Z]*x[a-zA-Z]*|--ex.*"), "ar": re.compile("-?[a-z]*x[a-z]*"),
    "unzip": re.compile(r"(?!-[lptvz]).*"), "cpio": re.compile(r"-[a-zA-Z]*[ip].*|--ex.*"),
    "python": re.compile("-e.*|--extract.*"), "python3": re.compile("-e.*|--extract.*"),
    "jar": re.compile("-?[a-z]*x.*|--extract"), "gh": re.compile("download|clone"), "glab": re.compile("clone"),
    "7z": re.compile("[ex]"), "7za": re.compile("[ex]"), "unrar": re.compile("[ex]"),
    "wget": re.compile("(?!-O$).*"), "curl": re.compile(r"-[a-zA-Z]*[OJ][a-zA-Z]*|--remote-.*"),
    "git": re.compile(
        "clone|pull|fetch|apply|am|submodule|lfs|checkout-index|unpack-file|switch|merge|rebase|pop|cherry-pick|revert"
    ),
    "npm": re.compile("pkg"), "patch": re.compile(".*"), "rsync": re.compile(".*"),
    "split": re.compile(".*"), "csplit": re.compile(".*"),
}  # fmt: skip
"""Programs that write files whose names come from the input, each with the argument that makes it write."""
_Entry = TypeVar("_Entry")
DISCARDS = "git checkout may discard changes to files"
ANYTHING = "*"
"""Stands for names of written files that are unknown until the command runs."""


class Kind(Enum):
    """The kinds of listed programs; `lists/known.toml` describes each."""

    READER = "readers"
    WRITER = "writers"
    RUNNER = "runners"


class Problem(NamedTuple):
    """The reason why a command is not known to be harmless."""

    rule: str
    reason: str


@cache
def kind_of(program: str) -> Kind | None:
    """Return the kind of a program, which is given by name or path. Return None if the program is not listed.

    A path outside of the system's folders is always a `RUNNER`: the workspace's code may be there.
    """
    folder, _, name = program.rpartition("/")
    if "/" in program and folder not in _SYSTEM:
        return Kind.RUNNER
    for kind in Kind:
        if any(fnmatchcase(name, each) for each in KNOWN[kind.value]):
            return kind
    return None


def find_problem(fact: Fact, added: tuple[str, ...] = ()) -> Problem | None:
    """Return why a command is not known to be harmless, or None. `added` are programs that the operator added."""
    command = fact.command
    name = command.name
    is_function = name in fact.bodies and command.inherited <= {"time"}  # other programs do not see functions
    if not command.words or not command.words[0].known or is_function:
        return None
    if (found := find_wrapper(name, command.arguments)) is not None:
        form, words = found
        return None if _has_known_options(form, words) else Problem("options", f"options of {name} may start programs")
    kind = Kind.RUNNER if name in added else kind_of(command.words[0].text)
    if kind is None:
        if [each.text for each in command.arguments] in (["--version"], ["--help"]):
            return None
        reason = f"{name} is not a listed program; to add it: {append_command('shell.programs', name)}"
        return Problem("unlisted-program", reason)
    if name not in added and (problem := _find_arguments_problem(fact)) is not None:
        return problem
    if (problem := _find_input_problem(command, kind)) is not None:
        return problem
    if kind is Kind.RUNNER and any(_LATENT.search(each.text) for each in command.arguments):
        return Problem("latent-code", f"an argument of {name} contains shell code that it may run")
    return None


def _has_known_options(form: Mapping[str, object], words: Iterable[Field]) -> bool:
    flags, values = form.get("flags"), form["values"]
    if not isinstance(flags, str) or not isinstance(values, list):
        return False
    waiting = [each.text for each in words]
    while waiting and waiting[0].startswith("-") and waiting[0] not in ("-", "--"):
        option = waiting.pop(0)
        if option in values:
            del waiting[:1]
        elif not re.fullmatch(flags, option[1:]):
            return False
    return True


def _find_input_problem(command: Command, kind: Kind) -> Problem | None:
    """Return a problem if a program runs its input as code, and the code is unknown or not known to be harmless."""
    words = command.arguments
    is_database = command.name in _DATABASES
    if not (command.upstream or command.stdin is not None or any(each.operator == "<" for each in command.redirects)):
        return None
    runs = kind is Kind.RUNNER and find_interpreter(command.name) in (None, []) and command.name not in SHELLS
    reads = any(map(is_standard_input, words)) or (not words and command.name in _PROMPTS)
    if not is_database and not (runs and reads):
        return None
    text = command.stdin or (printed_text(command.upstream[-1]) if command.upstream else None)
    pattern = _find_entry(ASKS, command.name) if is_database else None
    is_known = text is not None and pattern is not None and UNKNOWN.isdisjoint(text)
    if is_known and not any(re.fullmatch(pattern or "", each.strip(), re.DOTALL) for each in (text or "").splitlines()):
        return None
    return Problem("input", f"{command.name} may run its input, which is not known to be harmless")


def _find_arguments_problem(fact: Fact) -> Problem | None:
    name = fact.command.name
    operands = [each.text for each in fact.operands]
    first = operands[0] if operands else ""
    allowed = _find_entry(OPERANDS, name)
    if allowed is not None and not any(
        _begins_with(operands, each) or _begins_with(_list_texts(fact), each) for each in allowed
    ):
        return Problem("arguments", f"{name} {first} is not listed as harmless".replace("  ", " "))
    for key in dict.fromkeys((name, f"{name} {first}")):
        pattern = _find_entry(ASKS, key)
        if pattern is None:
            continue
        for before, each in pairwise((Field(""), *fact.command.arguments)):
            spellings = _iter_spellings(name, each.text)
            if before.text in _WITH_NAME:  # `-m pty` is `-mpty`, and `-X put` is `-Xput`
                spellings = chain(spellings, (before.text + each.text,))
            if any(re.fullmatch(pattern, text, re.DOTALL) for text in spellings):
                return Problem("arguments", f"{name} with {each.text[:40]!r} may delete files or start programs")
            if each.known and each.text not in (allowed or ()) and _abbreviates(each.text, pattern):
                return Problem("arguments", f"{name} with {each.text[:40]!r} may delete files or start programs")
    return (_find_git_problem(fact) if name == "git" else None) or _find_unknown_option(fact)


def _find_unknown_option(fact: Fact) -> Problem | None:
    """Return a problem if an unknown word may be an option, and the program has dangerous options."""
    name = fact.command.name
    if fits(name, PLAIN) or kind_of(fact.command.words[0].text) is None:
        return None
    for each in _iter_code_words(fact):
        is_sed = name in _SED
        if ANY in each.text or DECODED in each.text or (is_sed and not is_known_sed(each.text)):
            return Problem("unknown-code", f"{name} runs {each.text[:40]!r}, which is not known to be harmless")
    for each in _iter_own_words(fact):
        globbed = name in _GLOBBED and each.text[:1] in (NAME_PART, ONE)
        if each.open_start or globbed or (each.text[:1] == "-" and not _FIXED_OPTION.match(each.text)):
            hint = "" if name in SINGLE_DASH else "; operands after -- are not options"
            return Problem(
                "unknown-option",
                f"{name} has an argument that is unknown until the command runs, and may be an option{hint}",
            )
    return None


def _iter_code_words(fact: Fact) -> Iterator[Field]:
    """Yield the words that a program runs as code, if the program has only its own language."""
    name, words = fact.command.name, fact.command.arguments
    if name in _DATABASES:
        yield from (each for each in words if each not in fact.operands[:1])
    elif name in _SED:
        options = [
            (found, after) for each, after in pairwise((*words, Field(""))) if (found := _SED_E.match(each.text))
        ]
        scripts = [Field(found.group(1)) if found.group(1) else after for found, after in options]
        yield from scripts or fact.operands[:1]


def _find_git_problem(fact: Fact) -> Problem | None:
    """Return a problem if git gets a setting that is not known to be harmless, or restores files."""
    words, operands = _list_texts(fact), [each.text for each in fact.operands]
    before = words[: words.index(operands[0])] if operands else words
    given = [after.partition("=")[0] for each, after in pairwise((*before, "")) if each == "-c"]
    if operands[:1] == ["config"] and not _GIT_READS.intersection(words) and len(operands) > 2:
        given += [next((each.partition("=")[0] for each in operands[1:] if "." in each), "")]
    for each in given:
        if not _GIT_SETTINGS.fullmatch(each):
            return Problem("setting", f"the setting {each[:60]!r} may make git run programs")
    paths = checkout_words(fact)
    if len(paths) > 1 or any(_GIT_PATH.search(each.text) for each in paths):
        return Problem("arguments", DISCARDS)
    return None


def checkout_words(fact: Fact) -> tuple[Field, ...]:
    """Return the operands of a `git checkout` that creates no branch. A single operand is a branch or a path."""
    if fact.command.name != "git" or [each.text for each in fact.operands[:1]] != ["checkout"]:
        return ()
    return () if _GIT_BRANCHES.intersection(_list_texts(fact)) else fact.operands[1:]


def _iter_own_words(fact: Fact) -> Iterator[Field]:
    """Yield the words that a program may take for its own options, without the values of known options."""
    command = fact.command
    name, program = command.name, command.words[0].text
    if "/" in program and program.rpartition("/")[0] not in _SYSTEM:
        return  # the arguments of a program of the workspace
    first = fact.operands[0].text if fact.operands else ""
    values = (*VALUE_OPTIONS.get(name, ()), *OPTION_VALUES.get(name, ()), *OPTION_VALUES.get(f"{name} {first}", ()))
    is_script = name in SHELLS or find_interpreter(name) is not None
    before = ""
    for each in command.arguments:
        if each.text == "--" and name not in SINGLE_DASH:
            return
        if before not in values:
            yield each
        if is_script and each.known and not each.text.startswith("-") and not before.startswith("-"):
            return  # the rest are arguments of a script
        before = each.text


def _iter_spellings(name: str, text: str) -> Iterator[str]:
    """Yield a word, and each option of a cluster such as `-ab`, with and without the rest of the word."""
    yield text
    if name in SINGLE_DASH or not re.match("-[a-zA-Z0-9]{2}", text):
        return
    for at in range(1, len(text)):
        if not text[at].isalnum():
            return
        yield "-" + text[at]
        yield "-" + text[at:]


def _abbreviates(text: str, pattern: str) -> bool:
    """Return whether a word abbreviates a long option in the regular expression `pattern`."""
    given = text[2:].partition("=")[0]
    return text.startswith("--") and bool(given) and any(each.startswith(given) for each in _list_long_options(pattern))


@cache
def _list_long_options(pattern: str) -> frozenset[str]:
    groups = (each.split("|") for each in re.findall(r"--\(([\w|-]*)\)", pattern))
    return frozenset((*re.findall(r"--(\w[\w-]*)(?![\w=-])", pattern), *chain.from_iterable(groups)))


def _list_texts(fact: Fact) -> list[str]:
    return [each.text for each in fact.command.arguments]


def _find_entry(table: Mapping[str, _Entry], name: str) -> _Entry | None:
    """Return the entry of a program in a table. For `python3.11`, this is the entry of `python`."""
    program, space, rest = name.partition(" ")
    names = (program, ALIASES.get(program, program), re.sub(r"[0-9][0-9.]*$", "", program))
    return next((found for each in names if (found := table.get(each + space + rest)) is not None), None)


def _begins_with(operands: list[str], wanted: str) -> bool:
    words = wanted.split()
    if not words:
        return not operands
    return len(operands) >= len(words) and all(map(fnmatchcase, operands, words))


def written_names(facts: Iterable[Fact]) -> Iterator[tuple[Fact, str]]:
    """Yield each written file that programs may run: its name, and the fact about the command that writes it."""
    for fact in facts:
        command = fact.command
        if command.name in COMPILERS and not command.redirects and command.name not in _UNPACKERS:
            continue
        names = {path.parts[-1] for path in fact.written if path.parts}
        if command.name in _NAMING:
            own = {each.text.rstrip("/").rpartition("/")[2] for each in fact.operands}
            names |= own | {each.rpartition(".")[0] for each in own if "." in each}
        pattern = _UNPACKERS.get(command.name)
        unpacks = pattern is not None and any(map(pattern.fullmatch, _list_texts(fact)))
        if unpacks or checkout_words(fact):
            names.add(ANYTHING)
        yield from ((fact, name) for name in names)


def may_run(command: Command, name: str) -> bool:
    """Return whether a program may run a file: data, such as `a.txt`, only if it is its first operand or an option."""
    if may_be_code(name):
        return True
    words = [each.text for each in command.words]
    first = next((each for each in words[1:] if not each.startswith("-")), "")
    options = [each for at, each in enumerate(words) if each.startswith("-") or (at and words[at - 1].startswith("-"))]
    return any(each.endswith(name) for each in (words[0], first, *options))


def truncates_files(fact: Fact) -> bool:
    """Return whether a command empties a file: it prints nothing, or it reads the file that its redirect truncates."""
    command, words = fact.command, _list_texts(fact)
    targets = {each.target.text for each in command.redirects if each.truncates}
    if not targets:
        return False
    if command.name == "echo":
        return all(re.fullmatch("-[neE]+", each) for each in words)
    if command.name == "printf":
        return words in ([""], ["%s"], ["%s", ""])
    return not command.name or command.name in _SILENT or not targets.isdisjoint(words)


def loses_files(fact: Fact) -> bool:
    """Return whether a command overwrites each file that `find` or `xargs` finds, or moves files out of the workspace.

    The private home is deleted after the call, and so is a folder that `mktemp` makes there.
    """
    command, names = fact.command, [each.text.removeprefix("of=").removeprefix("./") for each in fact.command.arguments]
    last = [each.text.removeprefix("./") for each in fact.operands[-1:]]
    targets = [after for each, after in pairwise(names) if each == "-t"] or last
    targets += [after for each in names if (after := each.partition("=")[2]) and each.startswith("--t")]
    if command.name == "mv":
        return any(each == ANY or each.startswith("~") for each in targets)
    if not command.inherited & {"find", "xargs"}:
        return False
    if command.name == "sort":
        return ANY in {each.text.removeprefix("./") for each in fact.written_words}
    return ANY in (last if command.name in _COPYING else names if command.name in ("tee", "truncate", "dd") else ())


def runs_workspace_code(command: Command, added: tuple[str, ...] = ()) -> bool:
    """Return whether a command may run code that another command wrote."""
    return command.name in added or (bool(command.words) and kind_of(command.words[0].text) is Kind.RUNNER)
