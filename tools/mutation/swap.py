"""Find the functions of this process that a mutant changes, and their new code."""

from __future__ import annotations

import gc
import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

Functions = dict[tuple[str, str, int], list[FunctionType]]
"""Functions by file, qualified name and first line."""


def live_functions() -> Functions:
    """Return every function of this process, by its position in the source."""
    found: defaultdict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    gc.unfreeze()  # commands that a test imported have frozen their objects, which hides them from the collector
    for known in gc.get_objects():
        if isinstance(known, FunctionType):
            found[_place(known.__code__)].append(known)
    return found


def changed_functions(
    path: str, source: str, mutated: str, functions: Functions
) -> list[tuple[FunctionType, CodeType]] | None:
    """Return the functions that a mutant changes with their new code; None if other code changes, too."""
    before = compile(source, path, "exec", dont_inherit=True)
    after = compile(mutated, path, "exec", dont_inherit=True)
    pairs = list(_changed(before, after))
    found: list[tuple[FunctionType, CodeType]] = []
    for old, new in pairs:
        live = functions.get(_place(old), []) if old is not None else []
        if old is None or not live or old.co_freevars != new.co_freevars:
            return None
        found += [(function, new) for function in live]
        found += list(_closures(old, new, functions))
    return found or None


def _closures(before: CodeType, after: CodeType, functions: Functions) -> Iterator[tuple[FunctionType, CodeType]]:
    """Yield the closures that a changed function has already created, for example on import."""
    if len(_nested(before)) == len(_nested(after)):
        for old, new in zip(_nested(before), _nested(after), strict=True):
            if old.co_freevars == new.co_freevars:
                yield from ((function, new) for function in functions.get(_place(old), ()))
            yield from _closures(old, new, functions)


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _changed(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType | None, CodeType]]:
    """Yield the outermost functions that differ, or None if a module or class body differs."""
    if not _same_itself(before, after):
        yield (before if _is_function(before) else None), after
        return
    for old, new in zip(_nested(before), _nested(after), strict=True):
        if not _is_function(old):
            yield from _changed(old, new)
        elif any(True for _ in _changed(old, new)):
            yield old, new


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_OPTIMIZED)  # not a module, not the body of a class


def _same_itself(before: CodeType, after: CodeType) -> bool:
    def plain(code: CodeType) -> Iterable[Any]:
        return [(type(value), value) for value in code.co_consts if not isinstance(value, CodeType)]

    return (
        before.co_code == after.co_code
        and plain(before) == plain(after)
        and before.co_names == after.co_names
        and before.co_exceptiontable == after.co_exceptiontable
        and len(_nested(before)) == len(_nested(after))
    )


def _nested(code: CodeType) -> list[CodeType]:
    return [value for value in code.co_consts if isinstance(value, CodeType)]
