"""Runtimes whose guests live in workers, and marks for what a machine may lack: such tests are skipped aloud."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from wasmrt import WasmRuntimeConfig, WasmToolRuntime
from wasmrt.isolation.confine import layers

STANDING = {layer.name for layer in layers() if layer.standing}
NOBODY = 65534

needs_seccomp = pytest.mark.skipif("seccomp" not in STANDING, reason="this machine has no seccomp: nothing to prove")
needs_landlock = pytest.mark.skipif("landlock" not in STANDING, reason="this machine has no Landlock: nothing to prove")
as_users = pytest.mark.parametrize("user", [0, NOBODY] if os.getuid() == 0 else [0], ids=lambda user: f"user-{user}")
"""As this user (0: no change), and where this is root, as nobody too."""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))


@pytest.fixture
def runtime() -> Iterator[WasmToolRuntime]:
    """A runtime whose guests live in workers."""
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation="process")) as runtime:  # type: ignore[arg-type]
        yield runtime
