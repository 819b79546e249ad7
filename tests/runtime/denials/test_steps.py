"""Every refusal in the code has a next step, and every kind of refusal is tested."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import wasmrt
from tests.runtime.denials.cases import ELSEWHERE, TRIED
from wasmrt.core.model import Reason

ROOT = Path(__file__).resolve().parents[3]
MAKERS = {"Decision": 3, "make_refusal": 3, "refuse": 3}
"""Functions that create a refusal, with the position of the step among their arguments."""


def refusals() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(Path(wasmrt.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in MAKERS and len(node.args) + len(node.keywords) > 3:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def allows(node: ast.Call) -> bool:
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and first.value is True


@pytest.mark.ci("slow")
def test_every_refusal_is_created_with_a_next_step() -> None:
    found = list(refusals())
    assert len(found) > 100
    without = []
    for place, node in found:
        at = MAKERS[node.func.id]  # type: ignore[attr-defined]
        step = node.args[at] if len(node.args) > at else None
        named = next((each.value for each in node.keywords if each.arg in ("hint", "suggestion")), None)
        if not allows(node) and is_none(step) and is_none(named):
            without.append(place)
    assert not without


def test_every_refusal_reason_is_tested() -> None:
    assert TRIED | set(ELSEWHERE) == set(Reason) - {Reason.ALLOWED}
    assert not TRIED & set(ELSEWHERE), "what is tried here needs no other place"
    for reason, (file, said) in ELSEWHERE.items():
        assert said in (ROOT / file).read_text(), reason
