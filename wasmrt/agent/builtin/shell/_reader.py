"""Extract the simple commands of a script with the tree-sitter-bash grammar.

SECURITY: code that cannot be parsed is an error, and is never skipped: unknown kinds of nodes, syntax errors, and words
with too many expansions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise

from tree_sitter import Node

from wasmrt.agent.builtin.shell._commands import Command, CommandContext, NotUnderstoodError, Redirect, Script
from wasmrt.agent.builtin.shell._expressions import Expressions, Scope, get_text
from wasmrt.agent.builtin.shell._latent import evaluated_nodes
from wasmrt.agent.builtin.shell._syntax import parse_script
from wasmrt.agent.builtin.shell._words import (
    ANY,
    Alternatives,
    Field,
    TooManyError,
    lines_of_words,
    make_literal,
    to_words,
)

_MAX_NODES = 20_000
_MAX_DEPTH = 100
_GROUPS = to_words(
    "program list compound_statement subshell if_statement while_statement c_style_for_statement case_statement "
    "case_item do_group elif_clause else_clause negated_command"
)
_PLAIN = to_words(
    "word string raw_string ansi_c_string translated_string concatenation simple_expansion expansion number regex "
    "command_substitution process_substitution arithmetic_expansion brace_expression extglob_pattern array "
    "test_command binary_expression unary_expression postfix_expression ternary_expression parenthesized_expression "
    "variable_name special_variable_name test_operator subscript file_descriptor string_content"
)
"""Nodes that are values. Only the substitutions in these nodes run."""
_WORDS = _PLAIN | {"command_name", "variable_assignment", "$"}
_LISTS = to_words("command declaration_command unset_command array redirected_statement file_redirect for_statement")
_QUOTED = to_words("raw_string ansi_c_string string_content heredoc_body heredoc_content heredoc_end comment")
"""Nodes that may contain a backslash before a line end."""
_TEXTS = to_words("string heredoc_body")
"""Nodes with characters between their children, which are checked during evaluation."""
_SETTERS = to_words("read mapfile readarray getopts let wait printf unset command builtin")
"""Builtins that assign variables, and builtins that may precede them."""
_TOOLS = to_words("CC CXX CPP LD AR AS FC RM MAKE SHELL RUNNER HOSTCC")
_BEFORE_WORDS = to_words("( < > >> >| &> &>> <& >&")
_PLAIN_TOOL = re.compile(r"[\w./+-]*")
_SHARED = tuple(each.name for each in fields(CommandContext))


@dataclass(frozen=True, slots=True)
class _Context(CommandContext):
    words: tuple[Alternatives, ...] = ()
    """Words of the inner command that follow a redirection."""


@dataclass(slots=True)
class _Redirections:
    """The redirections of a statement, without its body."""

    redirects: list[Redirect] = field(default_factory=list)
    stdin: str | None = None
    behind: list[Node] = field(default_factory=list)
    words: list[Alternatives] = field(default_factory=list)


def read_script(text: str, *, environment: frozenset[str], given: Mapping[str, str], nested: bool = False) -> Script:
    """Return everything that a script would run.

    Raises:
        NotUnderstoodError: the script cannot be parsed unambiguously.
    """
    tree = parse_script(text)
    nodes = _collect_nodes(tree.root_node)
    reader = _Reader(Scope(environment, given=given, nested=nested))
    try:
        reader.declare(nodes)
        reader.visit(tree.root_node, _Context())
        reader.find_evaluated(nodes)
    except TooManyError:
        raise NotUnderstoodError("a word has too many possible expansions") from None
    return reader.script


def _collect_nodes(root: Node) -> list[Node]:
    """Return all nodes, after checking that none of them is an error."""
    found: list[Node] = []
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if node.is_error or node.is_missing:
            place = get_text(node)[:40] or "its end"
            raise NotUnderstoodError(f"syntax error at {place!r}")
        if depth > _MAX_DEPTH or len(found) > _MAX_NODES:
            raise NotUnderstoodError("it is nested too deeply or too long")
        if node.type not in _TEXTS:
            _check_words(node)
        if not node.children and node.type not in _QUOTED and b"\\\n" in (node.text or b""):
            raise NotUnderstoodError("a line continuation is inside a word")
        found.append(node)
        waiting += [(child, depth + 1) for child in node.children]
    return found


def _check_words(node: Node) -> None:
    """Check that the words of a sequence are separated by white space and nothing else.

    SECURITY: the grammar splits some words that are one word to the shell, such as `a!$1b`, and omits some characters.
    """
    text = node.text or b""
    for one, other in pairwise(node.children):
        between = text[one.end_byte - node.start_byte : other.start_byte - node.start_byte]
        blank = between.replace(b"\\\n", b"")
        omitted = blank.strip(b" \t\n")
        if node.type == "redirected_statement" and omitted == b"-":
            continue  # a separate `-` before a here-document names the standard input
        is_word = other.type in _WORDS or (node.type == "command" and not other.type.endswith("_redirect"))
        words = node.type in _LISTS and is_word and one.type not in _BEFORE_WORDS
        if omitted or ((words or between) and not blank):
            raise NotUnderstoodError(f"the grammar splits a word at {get_text(other)[:40]!r}")


class _Reader:
    def __init__(self, scope: Scope) -> None:
        self.script = Script()
        self._scope = scope
        self._words = Expressions(scope, self._visit_substitution)
        self._around = _Context()

    def declare(self, nodes: Iterable[Node]) -> None:
        """Record every variable and function of the script."""
        for node in nodes:
            if node.type == "variable_assignment":
                self._declare_assignment(node)
            elif node.type == "for_statement":
                self._declare_loop(node)
            elif node.type == "function_definition":
                self._declare_function(node)
            elif node.type == "command":
                self._declare_set(node)
            elif node.type == "expansion" and any(child.type in (":=", "=") for child in node.children):
                for child in node.named_children[:1]:
                    self._scope.open(get_text(child))
                    self._add([], (get_text(child).partition("[")[0],), _Context(), get_text(node))
            elif node.type in ("arithmetic_expansion", "c_style_for_statement", "test_command") or (
                node.type == "compound_statement" and get_text(node).startswith("((")
            ):
                for inner in _iter_descendants(node):
                    if inner.type in ("variable_name", "word"):
                        self._scope.count(get_text(inner))
            elif node.type in ("declaration_command", "unset_command"):
                self._declare_words(node)

    def find_evaluated(self, nodes: Iterable[Node]) -> None:
        """Record the parts that bash evaluates and whose values may contain code."""
        count = len(self.script.commands)
        self.script.evaluated += evaluated_nodes(
            nodes, self._words.value, lambda name: self._scope.values(name, self._words.value)
        )
        del self.script.commands[count:]

    def _declare_assignment(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            raise NotUnderstoodError("an assignment has no name")
        if name.type == "subscript" or (value is not None and value.type == "array"):
            self._scope.open(get_text(name).partition("[")[0])
        elif any(child.type == "+=" for child in node.children):
            self._scope.open(get_text(name))
        elif value is not None:
            self._scope.assign(get_text(name), value)
        else:
            self._scope.clear(get_text(name))

    def _declare_loop(self, node: Node) -> None:
        name = node.child_by_field_name("variable")
        values = node.children_by_field_name("value")
        if name is None:
            raise NotUnderstoodError("a loop has no variable")
        for value in values:
            self._scope.assign(get_text(name), value)
        if not values or any(child.type == "select" for child in node.children):
            self._scope.open(get_text(name))
            self._scope.open("REPLY")

    def _declare_function(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            raise NotUnderstoodError("a function has no name or no body")
        self._scope.has_parameters = True
        before = self.script.defined.get(get_text(name), range(node.start_byte, node.end_byte))
        self.script.defined[get_text(name)] = before
        if (
            node.parent is None
            or node.parent.type != "program"
            or (node.next_sibling and node.next_sibling.type == "&")
        ):
            self.script.notes.append(f"a function that may not exist, {get_text(name)}")
        self.script.bodies[get_text(name)] = self.script.bodies.get(get_text(name), "") + get_text(body)

    def _declare_set(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        word = "" if name is None else get_text(name).rpartition("/")[2].replace("\\", "")
        if word in ("set", "shift", "source", ".", "eval"):
            self._scope.has_parameters = True
        if word not in _SETTERS:
            return
        self._scope.open("REPLY")
        for argument in node.children_by_field_name("argument"):
            self._scope.open(get_text(argument).strip("'\"").partition("=")[0].partition("[")[0])

    def _declare_words(self, node: Node) -> None:
        """Record `declare "a=b"`, whose assignment is a word in the syntax tree."""
        for child in node.named_children:
            if child.type == "variable_name":
                self._scope.clear(get_text(child))  # `unset` removes its value, and `local` hides it
            if child.type in ("variable_assignment", "variable_name"):
                continue
            written = get_text(child)
            if written.startswith("-") and "n" in written:
                self.script.notes.append("a reference to another variable")
            elif not written.startswith("-"):
                self._scope.open(written.strip("'\"").partition("=")[0])
                if "$" in written.partition("=")[0] or "`" in written.partition("=")[0]:
                    self.script.notes.append("a variable with an unknown name")

    def visit(self, node: Node, around: _Context) -> list[Command]:
        """Record everything that `node` would run, and return it."""
        before = len(self.script.commands)
        outer, self._around = self._around, around
        try:
            self._visit(node, around)
        finally:
            self._around = outer
        return self.script.commands[before:]

    def _visit(self, node: Node, around: _Context) -> None:
        kind = node.type
        if kind in ("command", "declaration_command", "unset_command"):
            self._command(node, around)
        elif kind == "pipeline":
            self._pipeline(node.named_children, around)
        elif kind == "redirected_statement":
            self._read_redirected_statement(node, around)
        elif kind in ("variable_assignment", "variable_assignments"):
            self._read_assignments(node, around)
        elif kind == "function_definition":
            self._all(node.named_children[1:], around)
        elif kind == "for_statement" or kind in _GROUPS:
            for name in node.children_by_field_name("variable"):
                self._add([], (get_text(name),), _Context(), get_text(node))
            self._all(node.named_children, around)
        elif kind in _PLAIN:
            self._words.value(node)
        elif kind in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
            self._read_redirected_statement(node, around)
        elif kind not in ("comment", "heredoc_start", "heredoc_end", ";", "\n"):
            raise NotUnderstoodError(f"it contains an unsupported construct ({kind})")

    def _all(self, nodes: Iterable[Node], around: _Context) -> None:
        for each in nodes:
            self.visit(each, around)

    def _pipeline(self, stages: Iterable[Node], around: _Context, first: Iterable[Command] = ()) -> None:
        upstream = [*around.upstream, *first]
        stages = [stage for stage in stages if stage.type != "comment"]
        for index, stage in enumerate(stages):
            piped = around.piped or index < len(stages) - 1
            stdin = around.stdin if not index and not first else None
            inner = replace(around, upstream=tuple(upstream), piped=piped, stdin=stdin)
            upstream += self.visit(stage, inner)

    def _read_redirected_statement(self, node: Node, around: _Context) -> None:
        bound = _Redirections()
        body = node.child_by_field_name("body") if node.type == "redirected_statement" else None
        parts = node.children_by_field_name("redirect") if node.type == "redirected_statement" else [node]
        if body is None and node.type == "redirected_statement":
            body = next((each for each in node.named_children if not each.type.endswith("_redirect")), None)
        for part in parts:
            self._redirect(part, bound)
        inner = replace(
            around,
            redirects=(*around.redirects, *bound.redirects),
            stdin=around.stdin if bound.stdin is None else bound.stdin,
            piped=around.piped or bool(bound.behind),
            words=tuple(bound.words),
        )
        if bound.words and body is not None and body.type != "command":
            raise NotUnderstoodError("words follow a redirection of several commands")
        if body is None:
            self._add(bound.words, (), inner, get_text(node))
            first: list[Command] = self.script.commands[-1:]
        else:
            first = self.visit(body, inner)
        if bound.behind:
            self._pipeline(bound.behind, around, first)

    def _redirect(self, node: Node, bound: _Redirections) -> None:
        if node.type == "herestring_redirect":
            for child in node.named_children:
                if child.type != "file_descriptor":
                    bound.stdin = self._get_single_text(self._words.value(child)) + "\n"
        elif node.type == "heredoc_redirect":
            self._read_here_document_node(node, bound)
        elif node.type == "file_redirect":
            operator = next((child.type for child in node.children if not child.is_named), "")
            target, *behind = map(self._words.value, node.children_by_field_name("destination"))
            for line in lines_of_words([target]):
                bound.redirects += [Redirect(operator, each) for each in line or (Field(ANY),)]
            bound.words += behind  # the grammar parses the command's remaining words as targets
        else:
            raise NotUnderstoodError(f"it contains an unsupported construct ({node.type})")

    def _read_here_document_node(self, node: Node, bound: _Redirections) -> None:
        bound.stdin = ""
        for child in node.named_children:
            if child.type == "heredoc_body":
                bound.stdin = self._words.read_here_document(child)
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                self._redirect(child, bound)
            elif child.type in _PLAIN:
                bound.words.append(self._words.value(child))
            elif child.type not in ("heredoc_start", "heredoc_end", "file_descriptor", "comment"):
                bound.behind.append(child)

    def _command(self, node: Node, around: _Context) -> None:
        words: list[Alternatives] = []
        assigns: list[str] = []
        bound = _Redirections()
        for child in node.children:
            if child.type == "variable_assignment" and node.type == "command":
                assigns.append(self._record_assignment(child))
            elif child.type.endswith("_redirect"):
                self._redirect(child, bound)
            elif child.type == "command_name":
                words.append(self._words.value(child.children[0]))
            elif child.type == "variable_assignment":
                assigns.append(self._record_assignment(child))
                words.append(make_literal(get_text(child)))
            elif child.type in _PLAIN:
                words.append(self._words.value(child))
            elif not child.is_named:
                words.append(make_literal(get_text(child)))
            elif child.type != "comment":
                raise NotUnderstoodError(f"it contains an unsupported construct ({child.type})")
        inner = replace(
            around,
            redirects=(*around.redirects, *bound.redirects),
            stdin=around.stdin if bound.stdin is None else bound.stdin,
        )
        inner = replace(inner, start=node.start_byte)
        self._add([*words, *bound.words, *around.words], tuple(assigns), inner, get_text(node))
        if bound.behind:
            self._pipeline(bound.behind, around, self.script.commands[-1:])

    def _read_assignments(self, node: Node, around: _Context) -> None:
        each = [node] if node.type == "variable_assignment" else node.named_children
        self._add([], tuple(self._record_assignment(one) for one in each), around, get_text(node))

    def _record_assignment(self, node: Node) -> str:
        """Record the commands in an assignment's value, and return its name."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if value is not None:
            self._words.value(value)
        if name is not None and name.type == "subscript":
            self._words.value(name)
        values = () if value is None or name is None or get_text(name) not in _TOOLS else self._words.value(value)
        if name is not None and not all(_PLAIN_TOOL.fullmatch("".join(part.text for part in each)) for each in values):
            self.script.notes.append(f"a value of {get_text(name)} that is more than a program's name")
        return "" if name is None else get_text(name).partition("[")[0]

    def _add(self, words: list[Alternatives], assigns: tuple[str, ...], around: _Context, text: str) -> None:
        shared = {name: getattr(around, name) for name in _SHARED}
        self.script.commands += [Command(line, text[:400], assigns, **shared) for line in lines_of_words(words)]

    def _visit_substitution(self, node: Node) -> list[Command]:
        """Record the commands of a substitution, and return them."""
        fed = (Command((Field(ANY),), get_text(node)),) if get_text(node).startswith(">(") else ()
        inner = _Context(upstream=fed, substituted=True, piped=True)
        before = len(self.script.commands)
        self._all(node.named_children, inner)
        return self.script.commands[before:]

    @staticmethod
    def _get_single_text(alternatives: Alternatives) -> str:
        return "".join(part.text for part in alternatives[0]) if len(alternatives) == 1 else ANY


def _iter_descendants(node: Node) -> Iterator[Node]:
    waiting = list(node.children)
    while waiting:
        each = waiting.pop()
        yield each
        waiting += each.children
