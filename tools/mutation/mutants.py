"""The mutants of a module: each has one small change, like a typical mistake."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tools.mutation.syntax import is_cut_of_text, is_function, is_text, lines, statement_changes, targets

_COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.LShift: ">>",
    ast.RShift: "<<",
}
_UNTOUCHED = frozenset({"__all__", "__slots__"})
_TYPE = re.compile(r"_?[A-Z][A-Za-z]*[a-z][A-Za-z]*")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module."""

    module: str
    function: str
    """The dotted name of its function or class; empty at module level."""
    line: int
    change: str
    nth: int
    """The number of this change among equal changes in its function, from 1."""
    source: str
    """The source of the whole module with the change."""
    lines: tuple[int, ...]
    """The lines of the changed statement."""
    at_import: bool
    """Whether the statement runs on import, before any test."""
    names: tuple[str, ...]
    """Names that the statement assigns and other lines use, except local names of functions."""

    @property
    def key(self) -> tuple[str, str, str, int]:
        """The change, independent of its position in the function."""
        return self.module, self.function, self.change, self.nth

    def __str__(self) -> str:
        nth = f" (no. {self.nth})" if self.nth > 1 else ""
        return f"{self.module}:{self.line} {self.function}: {self.change}{nth}"

    @property
    def id(self) -> str:
        """A digest of the change and of the module, so that it is stable as long as the module is unchanged."""
        return hashlib.sha256("\0".join((*map(str, self.key), self.source)).encode()).hexdigest()[:16]


def mutants_of(path: Path, module: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    source = path.read_text()
    found = _Finder(source)
    found.visit(ast.parse(source))
    seen: Counter[tuple[str, str]] = Counter()
    made = []
    for change in sorted(found.changes, key=lambda change: (change.start, change.end, change.after)):
        mutated = source.encode()[: change.start] + change.after.encode() + source.encode()[change.end :]
        told = " ".join(change.told.split())
        seen[change.function, told] += 1
        nth = seen[change.function, told]
        rest = (mutated.decode(), change.lines, change.at_import, change.names)
        made.append(Mutant(module, change.function, change.line, told, nth, *rest))
    return [mutant for mutant in made if _compiles(mutant.source)]


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Change:
    start: int
    end: int
    after: str
    told: str
    function: str
    line: int
    lines: tuple[int, ...]
    at_import: bool
    names: tuple[str, ...]


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self._source = source.encode()
        self._text = source.splitlines()
        self._starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scope: list[str] = []
        self._statement: ast.stmt | None = None
        self._in_function = 0
        self.changes: list[_Change] = []

    # -- the current position ------------------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            if self._is_left_alone(node):
                return
            before, self._statement = self._statement, node
            for change in statement_changes(node):
                self._replace(node, change)
            super().visit(node)
            self._statement = before
            return
        super().visit(node)

    def _is_left_alone(self, node: ast.stmt) -> bool:
        if "pragma: no cover" in self._text[node.lineno - 1]:
            return True
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return True
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return True  # a docstring, or `...`
        if isinstance(node, ast.Assert):
            return True  # only for the type checker
        if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "Protocol" for b in node.bases):
            return True
        if not self._scope and any(_TYPE.fullmatch(name) for name in targets(node)):
            return True  # the name of a type
        return bool(_UNTOUCHED & set(targets(node)))

    def _visit_scope(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        is_function = not isinstance(node, ast.ClassDef)
        self._scope.append(node.name)
        self._in_function += is_function
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._in_function -= is_function
        self._scope.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _visit_scope

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)  # annotations have no effect

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass  # only text; and before Python 3.12 its parts have no positions

    # -- the changes ---------------------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            left, right = self._operand(node.left), self._operand(node.comparators[0])
            for other in _COMPARISONS[type(node.ops[0])]:
                self._replace(node, f"{left} {other} {right}")
        else:
            self._replace(node, f"(not ({self._code(node)}))")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = " or " if isinstance(node.op, ast.And) else " and "
        self._replace(node, "(" + other.join(f"({self._code(value)})" for value in node.values) + ")")
        for value in node.values:
            self._negated(value)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, f"bool({self._code(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = _ARITHMETIC.get(type(node.op))
        if other is not None and not is_text(node):
            self._replace(node, f"{self._operand(node.left)} {other} {self._operand(node.right)}")
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        self._negated(node.test)
        self.generic_visit(node)

    visit_While = visit_IfExp = visit_If

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negated(test)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace(node, str(not value))
        elif isinstance(value, int):
            self._replace(node, str(value + 1))
        elif value == 0.0:
            self._replace(node, "1.0")

    def visit_Slice(self, node: ast.Slice) -> None:
        for part in (node.lower, node.upper, node.step):
            if part is not None and not is_cut_of_text(part):
                self.visit(part)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "printable_line":
            self.visit(node.args[0])  # the length of a displayed text
        else:
            self.generic_visit(node)

    def _visit_display(self, node: ast.Tuple | ast.List | ast.Set) -> None:
        if not self._in_function and len(node.elts) > 1 and not isinstance(getattr(node, "ctx", None), ast.Store):
            brackets = {ast.List: "[{}]", ast.Set: "{{{}}}", ast.Tuple: "({},)"}[type(node)]
            for left_out in node.elts:
                kept = ", ".join(self._code(element) for element in node.elts if element is not left_out)
                self._replace(node, brackets.format(kept), f"{self._code(left_out)} -> left out")
        self.generic_visit(node)

    visit_Tuple = visit_List = visit_Set = _visit_display

    def visit_Dict(self, node: ast.Dict) -> None:
        pairs = [
            f"**{self._code(value)}" if key is None else f"{self._code(key)}: {self._code(value)}"
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        if not self._in_function and len(pairs) > 1:
            for at, left_out in enumerate(pairs):
                kept = ", ".join(pairs[:at] + pairs[at + 1 :])
                self._replace(node, f"{{{kept}}}", f"{left_out} -> left out")
        self.generic_visit(node)

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _negated(self, test: ast.expr) -> None:
        if isinstance(test, (ast.Compare, ast.BoolOp, ast.Constant)) or (
            isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        ):
            return  # comparisons have their own mutants
        self._replace(test, f"(not ({self._code(test)}))")

    def _operand(self, node: ast.expr) -> str:
        """Return the source of an operand, with parentheses if necessary."""
        needed = isinstance(node, (ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.NamedExpr))
        return f"({self._code(node)})" if needed else self._code(node)

    def _code(self, node: ast.expr | ast.stmt) -> str:
        return self._source[self._offset(node) : self._offset(node, end=True)].decode()

    def _offset(self, node: ast.expr | ast.stmt, *, end: bool = False) -> int:
        if end:
            assert node.end_lineno is not None and node.end_col_offset is not None
            return self._starts[node.end_lineno - 1] + node.end_col_offset
        return self._starts[node.lineno - 1] + node.col_offset

    def _replace(self, node: ast.expr | ast.stmt, after: str, told: str | None = None) -> None:
        statement = self._statement
        assert statement is not None
        start, end = self._offset(node), self._offset(node, end=True)
        self.changes.append(
            _Change(
                start,
                end,
                after,
                told or f"{self._code(node)} -> {after}",
                ".".join(self._scope),
                node.lineno,
                lines(statement),
                not self._in_function and not is_function(statement),
                tuple(targets(statement, attributes_only=bool(self._in_function))),
            )
        )
