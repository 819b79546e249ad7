"""The page of statements: each row names a test that exists, or states a difference with its reason."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.project.docs.pages import ROOT

_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_ROW = re.compile(r"- (?P<statement>\S.*?): (?P<shown>`tests/.*|Different: .*)")
_DIFFERENT = re.compile(r"(?:^|\. )Different: \S+ \S+ \S+.*\.$")


@cache
def _tests_of(path: str) -> frozenset[str]:
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _problem(line: str) -> str | None:
    """Return what is wrong with a row of the page, or None."""
    row = _ROW.fullmatch(line)
    if row is None:
        return "expected a statement, and a test or a difference"
    statement, shown = row["statement"], row["shown"]
    named = _TEST.findall(shown)
    missing = [f"{path}::{name}" for path, name in named if name not in _tests_of(path)]
    if missing:
        return f"no such test: {', '.join(missing)}"
    if len(named) != shown.count("tests/"):
        return "a test is not written as `tests/PATH.py::test_NAME`"
    if not named and not _DIFFERENT.search(shown):
        return "expected a test, or 'Different:' with the difference and its reason"
    if len(f"{statement} {_TEST.sub('', shown)}".split()) > 35:
        return "longer than 35 words"
    return None


@pytest.mark.ci("slow")
def test_each_statement_names_a_test_that_exists_or_a_difference() -> None:
    lines = (ROOT / "docs/mission.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines[4:] if line and not line.startswith("## ")]
    assert len(rows) > 350
    assert len(set(rows)) == len(rows)
    assert {line: problem for line in rows if (problem := _problem(line)) is not None} == {}


def test_an_empty_or_false_row_is_detected() -> None:
    here = "`tests/project/docs/test_mission.py::test_an_empty_or_false_row_is_detected`"
    assert _problem(f"- A statement: {here}") is None
    assert _problem("- A statement: Different: it has another name here.") is None
    for line in ("- A statement: ", f"- : {here}", "- A statement: Different: no.", "- A statement",
                 f"- A statement: {here.replace('empty', 'full')}", f"- A statement: {here.replace('.py', '')}",
                 "- A statement: see the code", f"- A {'long ' * 35}statement: {here}"):  # fmt: skip
        assert _problem(line) is not None, line
