"""Regular expressions that take linear time on any text. Only this module uses RE2.

RE2 is imported on first use. The import takes 2.5 ms, and a process that scans a few short texts does not need RE2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re2

_MEMORY_BYTES = 16 << 20


class ExpressionError(Exception):
    """RE2 rejects an expression, or the expression needs too much memory."""


def compile_linear(expression: bytes, *, captures: bool = False) -> Any:
    """Compile an expression for bytes. With `captures`, its groups are found too, which is slower.

    Raises:
        ExpressionError: the expression is invalid, has look-around or back-references, or is too large.
    """
    import re2

    options = _make_options(_MEMORY_BYTES)
    options.never_capture = not captures
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        raise ExpressionError(str(error)) from error


def compile_text_pattern(expression: str, *, memory_bytes: int) -> Any:
    """Compile an expression for text, whose `search(text)` returns a match or None.

    Raises:
        ExpressionError: the expression is invalid, has look-around or back-references, or is too large.
    """
    import re2

    options = _make_options(memory_bytes)
    options.encoding = re2.Options.Encoding.UTF8
    options.never_capture = True
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise ExpressionError(str(error)) from error


def compile_set(expressions: Iterable[bytes], *, memory_bytes: int) -> Any:
    """Compile expressions into one automaton, whose `Match(data)` returns the indexes of the matching expressions.

    Raises:
        ExpressionError: an expression is invalid, or the expressions together are too large.
    """
    import re2

    compiled = re2.Set.SearchSet(_make_options(memory_bytes))
    try:
        for expression in expressions:
            compiled.Add(expression)
        compiled.Compile()
    except re2.error as error:
        raise ExpressionError(str(error)) from error
    return compiled


def _make_options(memory_bytes: int) -> re2.Options:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # every byte is a character, so that invalid UTF-8 hides nothing
    options.max_mem = memory_bytes
    options.log_errors = False  # SECURITY: an expression may contain secrets
    return options
