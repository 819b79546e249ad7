"""The syntax tree of a script, parsed with the tree-sitter-bash grammar."""

from __future__ import annotations

import tree_sitter_bash
from tree_sitter import Language, Parser, Tree

from wasmrt.agent.builtin.shell._commands import NotUnderstoodError

_LANGUAGE = Language(tree_sitter_bash.language())
_MAX_NEGATIONS = 400
_MAX_PIPES = 1_000
"""The parser's time grows with the square of the number of negated commands, and of pipes."""


def parse_script(text: str) -> Tree:
    """Return the syntax tree of a script.

    SECURITY: the parser holds the GIL. After an error it tries to continue, which takes seconds; it is stopped instead.

    Raises:
        NotUnderstoodError: the script has a syntax error, or is too long.
    """
    if text.count("!") > _MAX_NEGATIONS or text.count("|") > _MAX_PIPES:
        raise NotUnderstoodError(
            f"the command has more than {_MAX_NEGATIONS} exclamation marks or {_MAX_PIPES:,} pipes"
        )
    data = text.encode("utf-8", "surrogatepass")
    parser = Parser(_LANGUAGE)
    try:
        tree = parser.parse(lambda start, _: data[start:], progress_callback=lambda _, has_error: has_error)
    except ValueError:
        tree = None
    if tree is None:
        raise NotUnderstoodError("syntax error")
    return tree
