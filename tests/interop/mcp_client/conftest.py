from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A separate home for wasmrt and for the programs."""
    home = tmp_path / "wasmrt-home"
    monkeypatch.setenv("WASMRT_HOME", str(home))
    yield home
