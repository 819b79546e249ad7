"""The session in docs/flows.md is the output of the example."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_the_session_in_the_docs_matches_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples/flows.py"), run_name="__main__")
    session = re.sub(r"call [0-9a-f]+-t\w+", "call 1", capsys.readouterr().out).rstrip()
    assert session in (ROOT / "docs/flows.md").read_text()
