"""The table of worlds is generated from the WIT files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_worlds_table_matches_the_wit_files() -> None:
    path = ROOT / "tools" / "worlds_table.py"
    spec = importlib.util.spec_from_file_location("worlds_table", path)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.TABLE.read_text() == generator.table(), "run: python tools/worlds_table.py --write"
