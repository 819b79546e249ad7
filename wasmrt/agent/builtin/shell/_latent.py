"""Text that bash evaluates although quotes protect it: names of variables, subscripts and arithmetic.

Source: bash reference manual, 6.5 "Shell Arithmetic" and 6.7 "Arrays". A value such as `a[$(command)]` runs the command
wherever a number, or the name of a variable, is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from tree_sitter import Node

from wasmrt.agent.builtin.shell._expressions import text_of
from wasmrt.agent.builtin.shell._match import Fact
from wasmrt.agent.builtin.shell._words import DIGITS, UNKNOWN, Alternatives, Field

_NAME = re.compile(r"[A-Za-z_]\w*(\[\d+\])?")
_NUMBER = re.compile(rf"\s*-?[0-9{DIGITS}]*\s*")
_PLAIN_ARITHMETIC = re.compile(r"[\w\s+*/%=<>!&|?:(),~^-]*")
_COMPARISONS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_WORDS = frozenset(("simple_expansion", "expansion", "command_substitution", "string", "raw_string", "concatenation"))
_DECLARING = frozenset(("declare", "typeset", "local", "export", "readonly"))
Values = Callable[[Node], Alternatives]


def evaluated_nodes(nodes: Iterable[Node], value: Values, variable: Callable[[str], Alternatives]) -> Iterator[str]:
    """Yield the parts of a script that bash evaluates and whose value may contain code."""
    for node in nodes:
        for part in _arithmetic_parts(node):
            if not _is_number(part, value, variable):
                yield text_of(part)[:60]
        if node.type == "unary_expression" and text_of(node).startswith(("-v", "-R")):
            if not _NAME.fullmatch(text_of(node)[2:].strip()):
                yield text_of(node)[:60]
        elif node.type == "expansion" and _evaluates_value(node, variable):
            yield text_of(node)[:60]


def evaluated_words(fact: Fact) -> Iterator[Field]:
    """Yield the words of a builtin command that bash evaluates, if they are not plain names of variables."""
    name, words = fact.command.name, fact.command.arguments
    found: list[Field] = []
    if name in ("test", "["):
        found += _values_of(words, "-v", "-R")
    elif name in ("printf", "wait"):
        found += _values_of(words, "-v" if name == "printf" else "-p")
    elif name in ("read", "unset"):
        found += [*fact.operands, *_values_of(words, "-a")]
    elif name in ("mapfile", "readarray"):
        found += [*fact.operands, *(each for each in words if re.match("-[a-zA-Z]*C", each.text))]
    elif name == "getopts":
        found += fact.operands[1:2]
    elif name in _DECLARING:
        found += _declared(words)
    yield from (each for each in found if not _NAME.fullmatch(each.text))


def _declared(words: tuple[Field, ...]) -> Iterator[Field]:
    for each in words:
        if each.text.startswith(("-", "+")):
            if "i" in each.text:
                yield each
            continue
        name, _, value = each.text.partition("=")
        yield Field(name.removesuffix("+"))
        if value.lstrip().startswith("(") and re.search(rf"[$`<>{''.join(UNKNOWN)}]", value):
            yield Field(value)


def _values_of(words: tuple[Field, ...], *options: str) -> Iterator[Field]:
    for at, each in enumerate(words):
        if each.text in options:
            yield from words[at + 1 : at + 2]
        elif each.text[:2] in options:
            yield Field(each.text[2:])


def _arithmetic_parts(node: Node) -> Iterator[Node]:
    """Yield the expressions of a node that bash evaluates as arithmetic."""
    text = text_of(node)
    if node.type == "arithmetic_expansion" or (node.type == "compound_statement" and text.startswith("((")):
        yield from node.named_children
    elif node.type == "c_style_for_statement":
        for name in ("initializer", "condition", "update"):
            yield from node.children_by_field_name(name)
    elif node.type == "subscript":
        index = node.child_by_field_name("index")
        if index is not None and text_of(index) not in ("@", "*"):
            yield index
    elif node.type == "expansion" and any(child.type == ":" for child in node.children):
        yield from node.named_children[1:]
    elif node.type == "binary_expression":
        operator = node.child_by_field_name("operator")
        if operator is not None and text_of(operator) in _COMPARISONS and _in_double_brackets(node):
            yield from (child for child in node.named_children if child.type != "test_operator")


def _in_double_brackets(node: Node) -> bool:
    outer: Node | None = node
    while outer is not None and outer.type != "test_command":
        outer = outer.parent
    return outer is not None and text_of(outer).startswith("[[")


def _is_number(node: Node, value: Values, variable: Callable[[str], Alternatives]) -> bool:
    if node.type in _WORDS:
        return _are_numbers(value(node))
    if node.named_children and node.type != "word":
        return all(_is_number(child, value, variable) for child in node.named_children)
    text = text_of(node)
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        return _are_numbers(variable(text))
    return _PLAIN_ARITHMETIC.fullmatch(text) is not None and not re.search("[A-Za-z_]", text)


def _are_numbers(alternatives: Alternatives) -> bool:
    return all(_NUMBER.fullmatch("".join(part.text for part in parts)) for parts in alternatives)


def _evaluates_value(node: Node, variable: Callable[[str], Alternatives]) -> bool:
    text = text_of(node)
    if re.search(r"@P\}$", text):
        return True
    found = re.fullmatch(r"\$\{!(\w+)(.*)\}", text, re.DOTALL)
    if found is None or found.group(2) in ("[@]", "[*]", "@", "*"):
        return False
    values = ("".join(part.text for part in parts) for parts in variable(found.group(1)))
    return not all(_NAME.fullmatch(each) or not each for each in values)
