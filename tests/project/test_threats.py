"""Every threat has a test or an attack, and every hostile test belongs to a threat."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.project.threats import COVERED_ATTACKS, KNOWN_ATTACKS, THREATS

_TESTS = Path(__file__).parents[1]


def _tests_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    functions = (node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    name = file.relative_to(_TESTS).as_posix()
    return {f"{name}::{function.name}" for function in functions if function.name.startswith("test_")}


@pytest.mark.ci("slow")
def test_every_threat_has_a_test_that_exists() -> None:
    assert [threat.threat for threat in THREATS if not (threat.tests or threat.attacks)] == []
    tests = {test for threat in THREATS for test in threat.tests}
    files = {_TESTS / test.partition("::")[0] for test in tests}
    assert tests - {test for file in files if file.is_file() for test in _tests_in(file)} == set()


def test_every_hostile_test_has_a_threat() -> None:
    hostile = {test for file in (_TESTS / "sandbox/escape").glob("test_*.py") for test in _tests_in(file)}
    assert hostile - {test for threat in THREATS for test in threat.tests} == set()


def test_every_attack_has_a_threat_and_every_attack_named_exists() -> None:
    assert COVERED_ATTACKS == KNOWN_ATTACKS
