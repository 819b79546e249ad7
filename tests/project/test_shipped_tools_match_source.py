"""The components in the wheel are built from the sources in tools/."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def build() -> ModuleType:
    # tools/ is a folder of scripts, not a package that could be imported by name.
    spec = importlib.util.spec_from_file_location("tools_build", ROOT / "tools/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_shipped_tool_is_older_than_its_source(build: ModuleType) -> None:
    assert build.stale() == {}, "run python tools/build.py"


def test_a_changed_source_is_detected(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    known = build.sources
    monkeypatch.setattr(build, "sources", lambda tool: known(tool)[1:])
    assert build.stale() == dict.fromkeys(build.TOOLS, "its source changed after it was built")


def test_a_component_that_was_not_built_from_the_sources_is_detected(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for tool in build.TOOLS:
        (tmp_path / f"{tool}.wasm").write_bytes(b"\0asm")
    monkeypatch.setattr(build, "SHIPPED", tmp_path)
    assert build.stale() == dict.fromkeys(build.TOOLS, "it is not the component that was built")


def test_a_tool_uses_only_crates_of_its_workspace(build: ModuleType) -> None:
    """Cargo hashes the path of an external crate, so another checkout would build different bytes."""
    for tool in build.TOOLS:
        root = build.workspace(tool)
        for manifest in root.rglob("Cargo.toml"):
            for path in re.findall(r'path = "([^"]*)"', manifest.read_text()):
                assert (manifest.parent / path).resolve().is_relative_to(root), manifest


def test_echo_is_under_its_size(build: ModuleType) -> None:
    assert (build.SHIPPED / "echo.wasm").stat().st_size < 120_000
