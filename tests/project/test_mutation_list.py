"""The list of surviving mutants matches the current code and gives a reason for each."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tools.mutation.mutants import mutants_of

ROOT = Path(__file__).resolve().parents[2]
LISTED: dict[str, dict[str, list[dict[str, Any]]]] = tomllib.loads((ROOT / "tools/mutation/survivors.toml").read_text())


@pytest.mark.ci("slow")
@pytest.mark.parametrize("module", LISTED)
def test_every_listed_survivor_is_a_mutant_of_the_current_code(module: str) -> None:
    rows = LISTED[module]["survivors"]
    listed = Counter((module, row["function"], row["change"], row.get("nth", 1)) for row in rows)
    assert listed.keys() - {mutant.key for mutant in mutants_of(ROOT / module, module)} == set()
    assert [key for key, times in listed.items() if times > 1] == []
    assert [row for row in rows if len(row["reason"]) < 10] == []
