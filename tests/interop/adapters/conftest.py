"""Fixture: a private home for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compiled import Installation


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(sharing_code(tmp_path / "home")))
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")  # tracing would send data to OpenAI
