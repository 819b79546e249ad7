"""The table of the protocol's rules and the tests in test_rules.py correspond."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE / "RULES.md"


def named_in(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if getattr(node, "name", "").startswith("test_")}


def test_the_rules_table_and_the_tests_agree() -> None:
    table = PAGE.read_text(encoding="utf-8")
    named = [set(re.findall(r"`(test_\w+)`", row)) for row in table.splitlines() if row.startswith("| ")][1:]
    files = [*HERE.glob("test_*.py"), *(HERE.parent / "pages").glob("test_*.py")]
    known = {name for path in files for name in named_in(path)}
    assert all(named), "a rule without a test"
    assert set().union(*named) - known == set(), "a test that does not exist"
    assert named_in(HERE / "test_rules.py") - set().union(*named) == set(), "a test of a rule that is not in the table"
