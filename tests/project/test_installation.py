"""The tests use the wasmrt of the tree, or with WASMRT_TESTS_ON=wheel an installed wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import wasmrt

TREE = Path(__file__).resolve().parents[2] / "wasmrt"
INSTALLED = Path(sysconfig.get_path("purelib")) / "wasmrt"


def test_tests_and_their_subprocesses_use_the_requested_package() -> None:
    expected = INSTALLED if os.environ.get("WASMRT_TESTS_ON") == "wheel" else TREE
    assert Path(wasmrt.__file__).parent == expected
    show = [sys.executable, "-c", "import wasmrt; print(wasmrt.__file__)"]
    started = subprocess.run(show, capture_output=True, text=True, check=True)
    assert Path(started.stdout.strip()).parent == expected
