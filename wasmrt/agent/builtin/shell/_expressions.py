"""Values of words: remove quotes, and expand variables and substitutions whose text is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from tree_sitter import Node

from wasmrt.agent.builtin.shell._commands import Command, NotUnderstoodError
from wasmrt.agent.builtin.shell._lists import DECODERS, TRANSLATORS
from wasmrt.agent.builtin.shell._words import (
    ANY,
    DECODED,
    DIGITS,
    MAX_ALTERNATIVES,
    NOTHING,
    Alternatives,
    Part,
    expand_values,
    join_alternatives,
    make_literal,
    make_unknown,
    to_words,
    unescape,
)

_NUMBERS = frozenset(
    ("!", "$", "?", "#", "RANDOM", "SECONDS", "LINENO", "PPID", "UID", "EUID", "EPOCHSECONDS", "SRANDOM")
)
_KNOWN = {"HOME": "~", "TMPDIR": "~", "TMP": "~", "TEMP": "~", "PWD": ".", "_": ANY, "-": ANY, "0": ANY, "IFS": " \t\n"}
_OWN = to_words(
    "BASH BASHOPTS BASH_VERSION BASH_ARGV0 BASH_COMMAND BASH_SUBSHELL COLUMNS COMP_WORDBREAKS DIRSTACK "
    "EPOCHREALTIME FUNCNAME GROUPS HISTCMD HOSTNAME HOSTTYPE LINES MACHTYPE MAPFILE OLDPWD OPTARG OPTERR OPTIND "
    "OSTYPE PIPESTATUS PS0 PS1 PS2 PS4 REPLY SHELL SHELLOPTS SHLVL TIMEFORMAT COPROC"
)
"""Variables that the shell itself sets to unknown values."""
Evaluate = Callable[[Node], Alternatives]


class Scope:
    """The possible values of a script's variables, regardless of execution order.

    `environment` are the variables that it starts with; `given` those with known values; `nested` is true for a script
    inside another script, which may set any variable and parameter.
    """

    def __init__(self, environment: frozenset[str], *, given: Mapping[str, str], nested: bool) -> None:
        self._environment = environment
        self._given = given
        self._nested = nested
        self._nodes: dict[str, list[Node]] = {}
        self._open: set[str] = set()
        self._numbers: set[str] = set()
        self._cleared: set[str] = set()
        self._found: dict[str, Alternatives] = {}
        self._busy: set[str] = set()
        self.has_parameters = nested

    def assign(self, name: str, value: Node) -> None:
        """Record that `name` may have this value."""
        self._nodes.setdefault(name, []).append(value)

    def open(self, name: str) -> None:
        """Record that `name` may have any value."""
        self._open.add(name)

    def count(self, name: str) -> None:
        """Record that `name` may have any number."""
        self._numbers.add(name)

    def clear(self, name: str) -> None:
        """Record that `name` may also be empty or unset, although the script assigns a value."""
        self._cleared.add(name)

    def values(self, name: str, evaluate: Evaluate) -> Alternatives:
        """Return the possible values of `name`: the initial value and each assigned one."""
        if name in self._found:
            return self._found[name]
        if name in self._busy:  # it refers to itself
            return make_unknown()
        self._busy.add(name)
        found = list(self._get_initial(name))
        for node in self._nodes.get(name, ()):
            found += evaluate(node)
        if name in self._numbers:
            found += make_unknown(DIGITS)
        if name in self._open or len(found) > MAX_ALTERNATIVES:
            found += make_unknown()
        self._busy.discard(name)
        self._found[name] = tuple(dict.fromkeys(found))
        return self._found[name]

    def _get_initial(self, name: str) -> Alternatives:
        if name in _NUMBERS:
            return make_unknown(DIGITS)
        if name in _KNOWN:
            return make_literal(_KNOWN[name])
        if name in ("@", "*") or name.isdigit():
            return (*make_unknown(), ()) if self.has_parameters else NOTHING
        if name in self._given:
            return self._stored(name)
        if name in _OWN or name in self._environment:
            return make_unknown()
        # SECURITY: an unset variable is empty, which allows a name to be split into two halves.
        return (*make_unknown(), ()) if self._nested else NOTHING

    def _stored(self, name: str) -> Alternatives:
        """Return the possible values of a session's variable; an outer script may have set it differently."""
        value = self._given[name]
        readable = all(each >= " " or each in "\t\n" for each in value)  # control characters are used as marks
        found = make_literal(value) if readable else make_unknown()
        if self._nested:
            return (*found, *make_unknown(), ())
        return (*found, ()) if name in self._cleared else found


_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion", "process_substitution")
_ALTERNATIVE = frozenset((":-", "-", ":=", "=", ":+", "+"))
_FORMAT = re.compile("%([%sb])")


def get_text(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode("utf-8", "surrogatepass")


class Expressions:
    """Evaluates words. Substitutions are passed to `run`, which returns their commands."""

    def __init__(self, scope: Scope, run: Callable[[Node], list[Command]]) -> None:
        self._scope = scope
        self._run = run

    def value(self, node: Node, *, quoted: bool = False) -> Alternatives:
        """Return the possible values of a word, and record the commands in its substitutions.

        Raises:
            NotUnderstoodError: the word has an unknown part.
            TooManyError: the word has too many possible values.
        """
        kind, text = node.type, get_text(node)
        if kind in ("word", "extglob_pattern", "regex", "number") and not node.named_children:
            return (_remove_quotes(text),)
        if kind == "raw_string":
            return make_literal(text[1:-1])
        if kind == "ansi_c_string":
            return make_literal(unescape(text[2:-1]))
        if kind == "string":
            return self._read_between(node, 1, quoted=True)
        if kind in ("simple_expansion", "expansion"):
            return self._variable(node, quoted=quoted)
        if kind == "command_substitution":
            return self._read_substitution(node, quoted=quoted)
        if kind in ("arithmetic_expansion", "brace_expression"):
            self._children(node)
            return make_unknown(DIGITS if kind == "arithmetic_expansion" else ANY, quoted=quoted)
        if kind == "process_substitution":
            self._run(node)
            return ((Part("/dev/fd/", True), Part(ANY, True)),)
        if kind in ("concatenation", "translated_string", "command_name", "number", "word", "regex", "extglob_pattern"):
            return self._read_adjacent(node)
        if kind in ("string_content", "variable_name", "special_variable_name", "test_operator", "file_descriptor"):
            return make_literal(text)
        self._children(node)
        return make_unknown(quoted=quoted)

    def read_here_document(self, node: Node) -> str:
        """Return the text of a here-document; expansions are replaced by `ANY`."""
        return "".join(part.text for part in self._read_between(node, 0, quoted=True)[0])

    def _children(self, node: Node) -> None:
        for child in node.named_children:
            if child.type != "comment":
                self.value(child)

    def _read_adjacent(self, node: Node) -> Alternatives:
        pieces: list[Alternatives] = []
        at = node.start_byte
        for child, following in pairwise((*node.children, None)):
            if child is None or child.start_byte != at:
                raise NotUnderstoodError("a word has a part that is missing from the syntax tree")
            at = child.end_byte
            if child.type == "simple_expansion" and following is not None and get_text(following).startswith("{"):
                raise NotUnderstoodError("braces after a variable change its name")
            if child.is_named:
                pieces.append(self.value(child))
            elif child.type == "$" and following is not None and following.type in ("string", "raw_string"):
                before = get_text(child)[:-1]
                if following.type == "raw_string" or before.endswith(
                    "$"
                ):  # an escape or a number, which only the shell interprets
                    raise NotUnderstoodError("a word has quotes after a $ in its middle")
                pieces.append((_remove_quotes(before),))
            else:
                pieces.append((_remove_quotes(get_text(child)),))
        if at != node.end_byte:
            raise NotUnderstoodError("a word has a part that is missing from the syntax tree")
        return join_alternatives(pieces)

    def _read_between(self, node: Node, border: int, *, quoted: bool) -> Alternatives:
        """Return a quoted text: its expansions and the text between them."""
        data, start = node.text or b"", node.start_byte
        at = border
        pieces: list[Alternatives] = []
        for child in node.children:
            if child.type in _EXPANSIONS:
                pieces.append(make_literal(_quote_data(data[at : child.start_byte - start])))
                pieces.append(self.value(child, quoted=quoted))
                at = child.end_byte - start
        pieces.append(make_literal(_quote_data(data[at : len(data) - border])))
        return join_alternatives(pieces)

    def _variable(self, node: Node, *, quoted: bool) -> Alternatives:
        children = node.named_children
        names = [child for child in children if child.type in ("variable_name", "special_variable_name")]
        operators = {child.type for child in node.children if not child.is_named} - {"${", "}", "$"}
        if not names or (children and children[0].type == "subscript"):
            self._children(node)
            return make_unknown(quoted=quoted)
        name, rest_of_word = _split_variable_name(get_text(names[0]), braces=node.type == "expansion")
        values = self._scope.values(name, self.value)
        if not operators and len(children) == 1:
            return join_alternatives((expand_values(values, quoted=quoted), make_literal(rest_of_word, quoted=quoted)))
        rest = [self.value(child) for child in children[1:]]
        if "#" in operators and node.children[1].type == "#":
            return make_unknown(DIGITS, quoted=quoted)
        if operators and operators <= _ALTERNATIVE:
            return expand_values((*values, *join_alternatives(rest)), quoted=quoted)
        return make_unknown(quoted=quoted)

    def _read_substitution(self, node: Node, *, quoted: bool) -> Alternatives:
        text = get_text(node)
        if text.startswith("`") and ("\\" in text or text.count("`") != 2):
            raise NotUnderstoodError("backticks that contain a backslash or more backticks are ambiguous: use $(...)")
        commands = self._run(node)
        parts = [child.type for child in node.named_children if child.type != "comment"]
        always = parts in (["command"], ["redirected_statement"])  # no condition, loop or definition
        if always and len(commands) == 1 and (told := printed_text(commands[0])) is not None:
            return expand_values(make_literal(told.rstrip("\n")), quoted=quoted)
        if commands and _prints_number(commands[-1]):
            return make_unknown(DIGITS, quoted=quoted)
        return make_unknown(DECODED if decodes(commands) else ANY, quoted=quoted)


def _prints_number(command: Command) -> bool:
    """Return whether a command prints a number and nothing else."""
    words = [each.text for each in command.arguments]
    if command.name == "wc":
        return len(words) == 1 and re.fullmatch("-[lwcmL]", words[0]) is not None
    if command.name == "date":
        return len(words) == 1 and re.fullmatch(r"\+(%[sYmdHMSjNuVC])+", words[0]) is not None
    return command.name == "nproc" and not words


def _split_variable_name(text: str, *, braces: bool) -> tuple[str, str]:
    """Return the name of a variable as bash reads it, and the rest that the grammar included in it."""
    if text[:1].isdigit() and not braces:
        return text[0], text[1:]  # bash reference manual, 3.4.1: one digit
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[-@*#?$!]", text):
        raise NotUnderstoodError("the shell reads the name of a variable differently")
    return text, ""


def printed_text(command: Command) -> str | None:
    """Return the output of `echo` or `printf` if all of it is known, otherwise None."""
    words = [word.text for word in command.arguments]
    if command.upstream or command.redirects or not all(word.known for word in command.words):
        return None
    if command.name == "echo":
        flags = ""
        while words and re.fullmatch("-[neE]+", words[0]):
            flags += words.pop(0)
        text = " ".join(words)
        return (unescape(text) if "e" in flags else text) + ("" if "n" in flags else "\n")
    if command.name == "printf" and words and not re.search("^-|%[^%sb]|%$", words[0]):
        return _evaluate_print(words[0], words[1:])
    if command.name == "cat" and not words and command.stdin is not None and ANY not in command.stdin:
        return command.stdin
    return None


def decodes(commands: Sequence[Command]) -> bool:
    """Return whether the commands of a substitution produce text that is not readable in the script.

    Examples are a decoder such as `base64 -d`, and `tr` with text from an `echo` as its input.
    """
    for command in commands:
        if command.name in DECODERS:
            return True
        has_text = command.stdin is not None or any(printed_text(each) is not None for each in command.upstream)
        if command.name in TRANSLATORS and has_text:
            return True
    return False


def _evaluate_print(form: str, words: list[str]) -> str:
    found, waiting = "", list(words)
    while True:
        before = len(waiting)

        def one(match: re.Match[str]) -> str:
            if match.group(1) == "%":
                return "%"
            word = waiting.pop(0) if waiting else ""
            return unescape(word) if match.group(1) == "b" else word

        found += _FORMAT.sub(one, unescape(form))
        if not waiting or len(waiting) == before:
            return found


def _remove_quotes(text: str) -> tuple[Part, ...]:
    """Return a word without quotes; a character after a backslash counts as quoted."""
    parts: list[Part] = []
    for index, piece in enumerate(re.split(r"\\(\n|.)", text, flags=re.DOTALL)):
        if index % 2 and piece != "\n":
            parts.append(Part(piece, True))
        elif not index % 2 and piece:
            parts.append(Part(piece))
    return tuple(parts)


def _quote_data(data: bytes) -> str:
    text = data.decode("utf-8", "surrogatepass")
    return re.sub(r'\\([$`"\\\n])', lambda found: found.group(1).strip("\n"), text)
