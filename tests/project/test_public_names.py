"""The public names: one list, declarations for type checkers, and an example in each docstring."""

from __future__ import annotations

import ast
import doctest
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import wasmrt
from tests.compiled import Installation
from tests.project.test_distributions import ROOT, hatchling

PUBLIC = sorted(name for names in wasmrt._PUBLIC.values() for name in names.split())
ALIASES = {"testing": "authoring/testing", "adapters": "interop/adapters"}


def test_the_imports_for_type_checkers_are_the_listed_names() -> None:
    tree = ast.parse((ROOT / "wasmrt" / "__init__.py").read_text())
    declared = {
        alias.asname: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert declared == {name: f"wasmrt.{home}" for name, home in wasmrt._HOMES.items()}


def test_every_listed_name_can_be_imported() -> None:
    assert [name for name in wasmrt._HOMES if getattr(wasmrt, name, None) is None] == []


def test_the_public_list_is_short() -> None:
    assert len(PUBLIC) <= 65


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, sharing_code: Installation) -> Path:
    return sharing_code(tmp_path_factory.mktemp("examples") / "home")


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_in_the_docstring_of_a_public_name_works(
    name: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WASMRT_HOME", str(home))
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")
    docstring = getattr(wasmrt, name).__doc__
    test = doctest.DocTestParser().get_doctest(docstring, {"__name__": "__main__"}, name, None, 0)
    assert test.examples, f"the docstring of {name} has no example"
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert "".join(report) == ""


def test_every_module_behind_a_public_alias_has_a_stub() -> None:
    for alias, folder in ALIASES.items():
        public = {path.name.removesuffix(".py") for path in (ROOT / "wasmrt" / folder).iterdir()}
        modules = {name for name in public if not name.startswith("_")} | {"__init__"}
        assert {path.stem for path in (ROOT / "wasmrt-stubs" / alias).glob("*.pyi")} == modules


USER = """
from wasmrt.testing import FakeCall
from wasmrt.testing.attacks import Body

call: FakeCall = 1
body: Body = 2
"""


@pytest.mark.ci("wheel")
def test_mypy_finds_the_aliases_of_an_installed_wheel(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(hatchling("wheel", ROOT, tmp_path / "wheel")) as wheel:
        wheel.extractall(site)
    (site / "dependencies.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    (tmp_path / "user.py").write_text(USER)
    python = tmp_path / "venv" / "bin" / "python"
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert [line.partition("variable has type ")[2] for line in done.stdout.splitlines()] == [
        '"FakeCall")  [assignment]',
        '"Body")  [assignment]',
        "",
    ], done.stdout + done.stderr
