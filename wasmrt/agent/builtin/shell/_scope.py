"""Values that the variables of a script may have, whatever the order in which it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tree_sitter import Node

from wasmrt.agent.builtin.shell._words import (
    ANY,
    DIGITS,
    MAX_ALTERNATIVES,
    NOTHING,
    Alternatives,
    literal,
    unknown,
    words_of,
)

_NUMBERS = frozenset(
    ("!", "$", "?", "#", "RANDOM", "SECONDS", "LINENO", "PPID", "UID", "EUID", "EPOCHSECONDS", "SRANDOM")
)
_KNOWN = {"HOME": "~", "PWD": ".", "_": ANY, "-": ANY, "0": ANY, "IFS": " \t\n"}
_OWN = words_of(
    "BASH BASHOPTS BASH_VERSION BASH_ARGV0 BASH_COMMAND BASH_SUBSHELL COLUMNS COMP_WORDBREAKS DIRSTACK "
    "EPOCHREALTIME FUNCNAME GROUPS HISTCMD HOSTNAME HOSTTYPE LINES MACHTYPE MAPFILE OLDPWD OPTARG OPTERR OPTIND "
    "OSTYPE PIPESTATUS PS0 PS1 PS2 PS4 REPLY SHELL SHELLOPTS SHLVL TIMEFORMAT COPROC"
)
"""Variables that the shell sets itself, to what nobody here knows."""
Evaluate = Callable[[Node], Alternatives]


class Scope:
    """The variables of one script.

    `environment` are those that it starts with; `given` those of them whose values are known; `nested` is true for a
    script inside of another, which may have been given any variable and any parameter.
    """

    def __init__(self, environment: frozenset[str], *, given: Mapping[str, str], nested: bool) -> None:
        self._environment = environment
        self._given = given
        self._nested = nested
        self._nodes: dict[str, list[Node]] = {}
        self._open: set[str] = set()
        self._cleared: set[str] = set()
        self._found: dict[str, Alternatives] = {}
        self._busy: set[str] = set()
        self.has_parameters = nested

    def assign(self, name: str, value: Node) -> None:
        """Take down that `name` may have this value."""
        self._nodes.setdefault(name, []).append(value)

    def open(self, name: str) -> None:
        """Take down that `name` may have any value."""
        self._open.add(name)

    def clear(self, name: str) -> None:
        """Take down that `name` may be empty, or not set, though it was given a value."""
        self._cleared.add(name)

    def values(self, name: str, evaluate: Evaluate) -> Alternatives:
        """Return what `name` may stand for: each value it is given, none, and what it starts with."""
        if name in self._found:
            return self._found[name]
        if name in self._busy:  # it is made of itself
            return unknown()
        self._busy.add(name)
        found = list(self._initial(name))
        for node in self._nodes.get(name, ()):
            found += evaluate(node)
        if name in self._open or len(found) > MAX_ALTERNATIVES:
            found += unknown()
        self._busy.discard(name)
        self._found[name] = tuple(dict.fromkeys(found))
        return self._found[name]

    def _initial(self, name: str) -> Alternatives:
        if name in _NUMBERS:
            return unknown(DIGITS)
        if name in _KNOWN:
            return literal(_KNOWN[name])
        if name in ("@", "*") or name.isdigit():
            return (*unknown(), ()) if self.has_parameters else NOTHING
        if name in self._given:
            return self._kept(name)
        if name in _OWN or name in self._environment:
            return unknown()
        # SECURITY: a variable that nobody sets is empty, which is a way to write a name in two halves.
        return (*unknown(), ()) if self._nested else NOTHING

    def _kept(self, name: str) -> Alternatives:
        """Return what a session's variable may stand for; a script inside of another may have been given another."""
        value = self._given[name]
        readable = all(each >= " " or each in "\t\n" for each in value)  # control characters are marks here
        found = literal(value) if readable else unknown()
        if self._nested:
            return (*found, *unknown(), ())
        return (*found, ()) if name in self._cleared else found
