"""Questions about the syntax of statements and expressions, for mutation runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_WORDING = 32
_DELETED = (ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)


def is_function(node: ast.stmt) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def lines(statement: ast.stmt) -> tuple[int, ...]:
    """Return the lines of a statement without its body; for a function with it, because its defaults are used there."""
    end = statement.end_lineno or statement.lineno
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        if is_function(statement):
            return tuple(range(body[0].lineno, end + 1))
        end = max(body[0].lineno - 1, statement.lineno)
    return tuple(range(statement.lineno, end + 1))


def targets(node: ast.stmt, *, attributes_only: bool = False) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        targets = [node.target]
    for target in targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and not attributes_only:
                yield part.id
            elif isinstance(part, ast.Attribute):
                yield part.attr


def statement_changes(node: ast.stmt) -> Iterator[str]:
    """Yield replacements for a whole statement."""
    if isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and (node.value.value is None or node.value.value is False)):
            yield "return None"
        return
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await))
    fills = isinstance(node, ast.Assign) and all(isinstance(t, (ast.Attribute, ast.Subscript)) for t in node.targets)
    if is_call or fills or isinstance(node, _DELETED):
        yield "pass"


def is_text(node: ast.BinOp) -> bool:
    """Return whether an expression is a concatenation of strings, as far as the syntax shows."""
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, (str, bytes)))
        or (isinstance(side, ast.BinOp) and is_text(side))
        for side in (node.left, node.right)
    )


def is_cut_of_text(bound: ast.expr) -> bool:
    """Return whether the bound of a slice truncates text for readers, which is a large number."""
    return isinstance(bound, ast.Constant) and isinstance(bound.value, int) and bound.value > _WORDING
