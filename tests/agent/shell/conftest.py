from __future__ import annotations

from pathlib import Path

import pytest

from wasmrt.agent.builtin.shell import ShellTool


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return wasmrt's data folder, with a secret in it."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("WASMRT_HOME", str(home))
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def shell(home: Path, folder: Path) -> ShellTool:
    return ShellTool(folder)
