"""The checks that are not tests: format, lint, types, and who may import whom. They run with the tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy",),
        ("lint-imports", "--no-cache"),
    ],
    ids=["lint", "format", "types", "arch"],
)
def test_the_project_passes_its_own_checks(command: tuple[str, ...]) -> None:
    found = shutil.which(command[0], path=sysconfig.get_path("scripts")) or shutil.which(command[0])
    assert found, f"{command[0]} is not installed: pip install --group dev"
    result = subprocess.run([found, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_importing_the_package_loads_nothing_heavy(unmeasured: None) -> None:
    script = "import sys, wasmrt; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"wasmtime", "httpx", "httpcore", "ssl", "keyring", "cryptography", "re2", "hyperscan", "click"}
    assert not heavy & set(loaded)


def test_only_the_engine_room_names_wasmtime_in_an_import() -> None:
    offenders = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "wasmrt").rglob("*.py")
        if path.parent.name != "engine"
        and any(
            line.lstrip().startswith(("import wasmtime", "from wasmtime")) for line in path.read_text().splitlines()
        )
    ]
    assert offenders == []
