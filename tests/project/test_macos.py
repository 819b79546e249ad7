"""Tests with a Python that looks like macOS. No test runs on macOS itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORTS = """
import importlib, pkgutil, wasmrt
from wasmrt.core.errors import ConfigurationError
# Worker processes need Linux, and adapters import their frameworks.
skipped = ("wasmrt.sandbox.isolation.pool", "wasmrt.interop.adapters", "wasmrt.__main__")
for module in pkgutil.walk_packages(wasmrt.__path__, "wasmrt.", onerror=lambda name: None):
    if not module.name.startswith(skipped):
        try:
            importlib.import_module(module.name)
        except ConfigurationError as error:
            assert error.code == "missing-extra", (module.name, error)
print("imported", len(sys.modules))
"""
CALL = """
from pathlib import Path
import wasmrt
with wasmrt.WasmToolRuntime() as runtime:
    echo = runtime.prepare("echo", Path(wasmrt.__file__).parent / "catalog/shipped/echo.wasm")
    print(runtime.config.isolation, echo.execute({"message": "hi"}).result)
"""
COMMAND = "from wasmrt.cli import cli; cli({arguments!r}, prog_name='wasmrt')"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a new installation."""
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    return tmp_path


def on_macos(script: str, *libraries: str, code: int = 0) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.project.macos", script, *libraries],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.ci("slow")
def test_every_module_except_worker_processes_can_be_imported(home: Path) -> None:
    assert "imported" in on_macos(IMPORTS, "mcp", "httpx")


@pytest.mark.ci("slow")
def test_tools_run_in_process_by_default(home: Path) -> None:
    assert on_macos(CALL) == "in-process hi\n"


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["run", "echo", '{"message": "hi"}'], "hi"),
        (["list"], "echo"),
        (["tools", "list"], "echo"),
        (["doctor"], "a call of echo took"),
        (["cache", "show"], "compiled code"),
    ],
)
def test_commands_work_without_linux(home: Path, arguments: list[str], shown: str) -> None:
    assert shown in on_macos(COMMAND.format(arguments=arguments))


@pytest.mark.parametrize("isolation", ["process", "required"])
def test_worker_processes_are_refused_with_the_setting_to_change(home: Path, isolation: str) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data/config.toml").write_text(f'[guests]\nisolation = "{isolation}"\n')
    said = on_macos(COMMAND.format(arguments=["run", "echo", '{"message": "hi"}']), code=2)
    assert "worker processes need Linux" in said and "wasmrt config set guests.isolation in-process" in said
