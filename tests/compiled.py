"""Installations of tests that share compiled code: what a test run has compiled once, it does not compile again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from wasmrt.core.files import private_key

Installation = Callable[[Path], Path]


@pytest.fixture(scope="session")
def sharing_code(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Makes a folder for WASMRT_HOME an installation with nothing of its own but the code of all that share it."""
    shared = tmp_path_factory.mktemp("compiled")
    key = shared.with_suffix(".key")
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
