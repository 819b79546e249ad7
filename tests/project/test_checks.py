"""Checks of the package as a whole: its public names and the modules that it loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_importing_the_package_loads_no_heavy_module(unmeasured: None) -> None:
    script = "import sys, wasmrt; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    scanning = {"re2", "hyperscan", "ahocorasick_rs"}
    heavy = scanning | {"wasmtime", "httpx", "httpcore", "ssl", "keyring", "cryptography", "click"}
    assert not heavy & set(loaded)


def test_only_the_engine_package_imports_wasmtime() -> None:
    offenders = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "wasmrt").rglob("*.py")
        if path.parent.name != "engine"
        and any(
            line.lstrip().startswith(("import wasmtime", "from wasmtime")) for line in path.read_text().splitlines()
        )
    ]
    assert offenders == []
