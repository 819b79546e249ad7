"""The six lower areas work without the four upper ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import wasmrt

LOWER = ("core", "sandbox", "capabilities", "egress", "catalog", "runtime")
UPPER = ("agent", "authoring", "interop", "cli")
PACKAGE = Path(wasmrt.__file__).parent
IMPORT_ALL = """
import importlib, pkgutil, sys
import wasmrt
for found in pkgutil.walk_packages(wasmrt.__path__, "wasmrt."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(len([name for name in sys.modules if name.startswith("wasmrt.")]))
"""
CALL_ECHO = """
from pathlib import Path
from wasmrt import WasmRuntimeConfig, WasmToolRuntime
import wasmrt
with WasmToolRuntime(WasmRuntimeConfig.load()) as runtime:
    tool = runtime.prepare("echo", Path(wasmrt.__file__).parent / "catalog/shipped/echo.wasm")
    print(tool.execute({"message": "hi"}).result)
"""


def run_lower(folder: Path, script: str) -> str:
    """Run a script with a copy of the package that contains only the lower areas."""
    package = folder / "wasmrt"
    package.mkdir()
    shutil.copy(PACKAGE / "__init__.py", package)
    for area in LOWER:
        shutil.copytree(PACKAGE / area, package / area, ignore=shutil.ignore_patterns("__pycache__"))
    for data in ("wit", "guest-templates"):
        if (PACKAGE.parent / data).is_dir():
            shutil.copytree(PACKAGE.parent / data, folder / data)
    environ = os.environ | {"PYTHONPATH": str(folder), "WASMRT_HOME": str(folder / "home")}
    for name in UPPER:
        script = f"import importlib.util\nassert importlib.util.find_spec('wasmrt.{name}') is None\n{script}"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.ci("slow")
def test_every_module_of_the_lower_areas_imports_without_the_upper_ones(tmp_path: Path, unmeasured: None) -> None:
    assert int(run_lower(tmp_path, IMPORT_ALL)) > 300


@pytest.mark.ci("slow")
def test_a_tool_runs_without_the_upper_areas(tmp_path: Path, unmeasured: None) -> None:
    assert run_lower(tmp_path, CALL_ECHO) == "hi"
