"""Expressions that take linear time on any text: RE2, which nothing else here touches.

It is loaded when it is first needed, which takes 2.5 ms: a process that scans a few short texts needs none of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re2

_MEMORY_BYTES = 16 << 20


class ExpressionError(Exception):
    """RE2 refuses an expression, or it takes too much memory."""


def compile_linear(expression: bytes, *, captures: bool = False) -> Any:
    """Compile an expression over bytes; its groups are found with `captures` only, which is slower.

    Raises:
        ExpressionError: it has look-around or back-references, or is too large.
    """
    import re2

    options = _options(_MEMORY_BYTES)
    options.never_capture = not captures
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        raise ExpressionError(str(error)) from error


def compile_set(expressions: Iterable[bytes], *, memory_bytes: int) -> Any:
    """Compile expressions into one automaton, whose `Match(data)` returns the numbers of those that a text holds.

    Raises:
        ExpressionError: they are too large.
    """
    import re2

    compiled = re2.Set.SearchSet(_options(memory_bytes))
    try:
        for expression in expressions:
            compiled.Add(expression)
        compiled.Compile()
    except re2.error as error:
        raise ExpressionError(str(error)) from error
    return compiled


def _options(memory_bytes: int) -> re2.Options:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes are bytes: broken UTF-8 hides nothing
    options.max_mem = memory_bytes
    options.log_errors = False  # SECURITY: an expression may be made of secrets
    return options
