from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wasmrt import WasmRuntimeConfig, WasmToolRuntime


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))


@pytest.fixture
def runtime() -> Iterator[WasmToolRuntime]:
    """A runtime whose guests live in workers."""
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation="process")) as runtime:  # type: ignore[arg-type]
        yield runtime
