"""Installations for tests that share compiled code, so that each component is compiled once per test run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from wasmrt.core.files import private_key

Installation = Callable[[Path], Path]


@pytest.fixture(scope="session")
def sharing_code(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Return a function that sets up a directory as WASMRT_HOME, with its own data and shared compiled code."""
    run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # the processes of a run share the code, too
        run = run.parent
    shared, key = run / "compiled", run / "compiled.key"
    shared.mkdir(exist_ok=True, mode=0o700)
    private_key(key)

    def make(home: Path) -> Path:
        if (home / "cache" / "compiled").is_symlink():
            return home
        (home / "data").mkdir(parents=True, mode=0o700)
        shutil.copy2(key, home / "data" / "cache.key")
        (home / "cache").mkdir(mode=0o700)
        (home / "cache" / "compiled").symlink_to(shared)
        return home

    return make
