"""Find text that bash evaluates even in quotes: names of variables, subscripts and arithmetic.

Source: bash reference manual, 6.5 "Shell Arithmetic" and 6.7 "Arrays". A value such as `a[$(command)]` runs the command
wherever a number, or the name of a variable, is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from tree_sitter import Node

from wasmrt.agent.builtin.shell._expressions import get_text
from wasmrt.agent.builtin.shell._match import Fact
from wasmrt.agent.builtin.shell._words import DIGITS, UNKNOWN, Alternatives, Field

_NAME = re.compile(r"[A-Za-z_]\w*(\[\d+\])?")
_NUMBER = re.compile(rf"\s*-?[0-9{DIGITS}]*\s*")
_PLAIN_ARITHMETIC = re.compile(r"[\w\s+*/%=<>!&|?:(),~^-]*")
_COMPARISONS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_SUBSTITUTED = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[({\[])")
_STARTS = re.compile(_SUBSTITUTED.pattern + r"|[<>]\(")
_LITERAL = frozenset(("raw_string", "ansi_c_string", "comment", "heredoc_start", "heredoc_end", "heredoc_content"))
_EXPANDED = frozenset(("command_substitution", "arithmetic_expansion", "expansion"))
_WORDS = frozenset(("simple_expansion", "expansion", "command_substitution", "string", "raw_string", "concatenation"))
_DECLARING = frozenset(("declare", "typeset", "local", "export", "readonly"))
Values = Callable[[Node], Alternatives]


def evaluated_nodes(nodes: Iterable[Node], value: Values, variable: Callable[[str], Alternatives]) -> Iterator[str]:
    """Yield the parts of a script that bash evaluates and whose value may contain code."""
    nodes = list(nodes)
    arrays = frozenset(_iter_array_names(nodes))
    for node in nodes:
        if _hides_substitution(node) or _assigns_array_text(node, arrays, value):
            yield get_text(node)[:60]
        for part in _iter_arithmetic_parts(node):
            if not _is_number(part, value, variable):
                yield get_text(part)[:60]
        if node.type == "unary_expression" and get_text(node).startswith(("-v", "-R")):
            if not _NAME.fullmatch(get_text(node)[2:].strip()):
                yield get_text(node)[:60]
        elif node.type == "expansion" and _evaluates_value(node, variable):
            yield get_text(node)[:60]


def _hides_substitution(node: Node) -> bool:
    """Return whether a node has a substitution that the grammar does not parse, such as the backticks in `${x#`a`}`."""
    text = get_text(node)
    if node.type.endswith("_redirect") and node.parent is not None:
        before = (node.parent.text or b"")[: node.start_byte - node.parent.start_byte]
        return before.endswith(b"]}")  # `{a[$x]}>f` stores the number of the descriptor
    if node.type == "heredoc_body":
        start = node.parent and next((each for each in node.parent.children if each.type == "heredoc_start"), None)
        quoted = start is not None and re.search(r"[\'\"\\\\]", get_text(start)) is not None
        text = get_text(node.parent).partition("\n")[2] if node.parent is not None else text
        parsed = "".join(get_text(each) for each in node.named_children if each.type in _EXPANDED)
        return not quoted and len(_SUBSTITUTED.findall(text)) > len(_SUBSTITUTED.findall(parsed))
    if node.children or not node.is_named or node.type in _LITERAL:
        return False
    return (_SUBSTITUTED if node.type == "string_content" else _STARTS).search(text) is not None


def _iter_array_names(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the names of the arrays of a script."""
    for node in nodes:
        if node.type == "variable_assignment":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is not None and (name.type == "subscript" or (value is not None and value.type == "array")):
                yield get_text(name).partition("[")[0]
        elif node.type in ("declaration_command", "command"):
            words = get_text(node).split()
            if any(re.match("-[a-zA-Z]*[aA]", each) for each in words) or words[:1] in (["mapfile"], ["readarray"]):
                yield from (each.strip("'\"").partition("=")[0] for each in words)


def _assigns_array_text(node: Node, arrays: frozenset[str], value: Values) -> bool:
    """Return whether a declaration assigns text to an array: `declare -a 'x=($y)'` evaluates it again."""
    if node.parent is None or node.parent.type != "declaration_command" or not node.is_named:
        return False
    if node.type == "variable_assignment":
        name, text = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or text is None or text.type == "array":
            return False
        values, names = value(text), get_text(name)
    else:
        values, names = value(node), get_text(node).strip("'\"").partition("=")[0]
    texts = ("".join(part.text for part in parts).removeprefix(names + "=") for parts in values)
    is_array = names in arrays
    return any(
        (each.lstrip().startswith("(") and _STARTS.search(each) is not None)
        or (is_array and node.type == "variable_assignment" and not UNKNOWN.isdisjoint(each))
        for each in texts
    )


def evaluated_words(fact: Fact) -> Iterator[Field]:
    """Yield the words of a builtin command that bash evaluates, if they are not plain names of variables."""
    name, words = fact.command.name, fact.command.arguments
    found: list[Field] = []
    if name in ("test", "["):
        found += _iter_values(words, "-v", "-R")
    elif name in ("printf", "wait"):
        found += _iter_values(words, "-v" if name == "printf" else "-p")
    elif name in ("read", "unset"):
        found += [*fact.operands, *_iter_values(words, "-a")]
    elif name in ("mapfile", "readarray"):
        found += [*fact.operands, *(each for each in words if re.match("-[a-zA-Z]*C", each.text))]
    elif name == "getopts":
        found += fact.operands[1:2]
    elif name in _DECLARING:
        found += _iter_declared_words(words)
    yield from (each for each in found if not _NAME.fullmatch(each.text))


def _iter_declared_words(words: tuple[Field, ...]) -> Iterator[Field]:
    for each in words:
        if each.text.startswith(("-", "+")):
            if "i" in each.text:
                yield each
            continue
        name, _, value = each.text.partition("=")
        yield Field(name.removesuffix("+"))
        if value.lstrip().startswith("(") and re.search(rf"[$`<>{''.join(UNKNOWN)}]", value):
            yield Field(value)


def _iter_values(words: tuple[Field, ...], *options: str) -> Iterator[Field]:
    for at, each in enumerate(words):
        if each.text in options:
            yield from words[at + 1 : at + 2]
        elif each.text[:2] in options:
            yield Field(each.text[2:])


def _iter_arithmetic_parts(node: Node) -> Iterator[Node]:
    """Yield the expressions of a node that bash evaluates as arithmetic."""
    text = get_text(node)
    if node.type == "arithmetic_expansion" or (node.type == "compound_statement" and text.startswith("((")):
        yield from node.named_children
    elif node.type == "c_style_for_statement":
        for name in ("initializer", "condition", "update"):
            yield from node.children_by_field_name(name)
    elif node.type == "subscript":
        index = node.child_by_field_name("index")
        if index is not None and get_text(index) not in ("@", "*"):
            yield index
    elif node.type == "array":
        for each in node.named_children:
            yield from _index_of_element(each)
    elif node.type == "expansion" and any(child.type == ":" for child in node.children):
        yield from node.named_children[1:]
    elif node.type == "binary_expression":
        operator = node.child_by_field_name("operator")
        if operator is not None and get_text(operator) in _COMPARISONS and _is_in_double_brackets(node):
            yield from (child for child in node.named_children if child.type != "test_operator")


def _index_of_element(node: Node) -> Iterator[Node]:
    """Yield the parts of the index of an element such as `[x]=1`; keys of associative arrays are not arithmetic."""
    declaration = node.parent and node.parent.parent and node.parent.parent.parent
    if declaration is not None and re.search(r"\s-[a-z]*A", get_text(declaration).partition("=")[0]):
        return
    if not re.match(r"\[[^\]]*\].*=", get_text(node), re.DOTALL):
        return
    if not node.named_children:
        yield node
    for child in node.named_children:
        if get_text(child).startswith("]"):
            return
        if get_text(child) != "[":
            yield child


def _is_in_double_brackets(node: Node) -> bool:
    outer: Node | None = node
    while outer is not None and outer.type != "test_command":
        outer = outer.parent
    return outer is not None and get_text(outer).startswith("[[")


def _is_number(node: Node, value: Values, variable: Callable[[str], Alternatives]) -> bool:
    if node.type in _WORDS:
        return _are_numbers(value(node))
    if node.named_children and node.type != "word":
        return all(_is_number(child, value, variable) for child in node.named_children)
    text = get_text(node)
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        return _are_numbers(variable(text))
    return _PLAIN_ARITHMETIC.fullmatch(text) is not None and not re.search("[A-Za-z_]", text)


def _are_numbers(alternatives: Alternatives) -> bool:
    return all(_NUMBER.fullmatch("".join(part.text for part in parts)) for parts in alternatives)


def _evaluates_value(node: Node, variable: Callable[[str], Alternatives]) -> bool:
    text = get_text(node)
    if re.search(r"@P\}$", text):
        return True
    found = re.fullmatch(r"\$\{!(\w+)(.*)\}", text, re.DOTALL)
    if found is None or found.group(2) in ("[@]", "[*]", "@", "*"):
        return False
    values = ("".join(part.text for part in parts) for parts in variable(found.group(1)))
    return not all(_NAME.fullmatch(each) or not each for each in values)
