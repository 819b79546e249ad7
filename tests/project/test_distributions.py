"""Contents of the wheel and the sdist, and building the wheel from the sdist."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from wasmrt.core.version import VERSION

pytestmark = pytest.mark.ci("wheel")

ROOT = Path(__file__).resolve().parents[2]
IN_WHEEL = {
    "wasmrt": "wasmrt",
    "wasmrt/_wit": "wit",
    "wasmrt/_templates": "guest-templates",
    "wasmrt-stubs": "wasmrt-stubs",
}
"""Folders of the wheel, with their folders in the tree."""
LARGEST_WHEEL = 5_000_000
"""Bytes. Two thirds are components: parsers of ripgrep and browsers, and a JavaScript interpreter."""


@dataclass(frozen=True)
class Built:
    sdist: Path
    of_the_sdist: Path
    """The wheel built from the unpacked sdist, as it is published."""
    of_the_tree: Path


def hatchling(kind: str, source: Path, out: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    sdist = hatchling("sdist", ROOT, folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return Built(sdist, hatchling("wheel", unpacked, folder / "wheel"), hatchling("wheel", ROOT, folder / "tree"))


@pytest.fixture(scope="module")
def wheel(built: Built) -> dict[str, bytes]:
    return contents(built.of_the_sdist)


@pytest.fixture(scope="module")
def metadata(wheel: dict[str, bytes]) -> Metadata:
    (path,) = (path for path in wheel if path.endswith(".dist-info/METADATA"))
    return Metadata.from_email(wheel[path], validate=True)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_sdist_builds_the_wheel_that_the_tree_builds(built: Built) -> None:
    theirs, ours = contents(built.of_the_sdist), contents(built.of_the_tree)
    assert sorted(theirs) == sorted(ours)
    assert [name for name in ours if ours[name] != theirs[name]] == []


def test_the_wheel_contains_package_stubs_worlds_and_templates_only(
    wheel: dict[str, bytes],
) -> None:
    inside = {path for path in wheel if ".dist-info/" not in path}
    assert inside == {
        f"{name}/{path.relative_to(ROOT / place).as_posix()}"
        for name, place in IN_WHEEL.items()
        for path in (ROOT / place).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize(
    "path",
    [
        "wasmrt/py.typed",
        "wasmrt-stubs/py.typed",
        "wasmrt-stubs/testing/__init__.pyi",
        "wasmrt/catalog/shipped/echo.wasm",
        "wasmrt/catalog/shipped/manifest.json",
        "wasmrt/_wit/wasmrt-tool/tool.wit",
        "wasmrt/_wit/near-agent/0.4.1/tool.wit",
        "wasmrt/_templates/c/template.toml",
    ],
)
def test_the_wheel_contains_the_data_files_of_the_package(wheel: dict[str, bytes], path: str) -> None:
    assert wheel[path] or path.endswith("py.typed")


def test_the_wheel_is_platform_independent_and_small(built: Built) -> None:
    assert built.of_the_sdist.name.endswith("-py3-none-any.whl")
    assert built.of_the_sdist.stat().st_size < LARGEST_WHEEL


def test_the_only_command_of_the_wheel_is_importable(wheel: dict[str, bytes]) -> None:
    (path,) = (path for path in wheel if path.endswith(".dist-info/entry_points.txt"))
    points = ConfigParser()
    points.read_string(wheel[path].decode())
    assert {section: dict(points[section]) for section in points.sections()} == {
        "console_scripts": {"wasmrt": "wasmrt.__main__:main"}
    }
    assert callable(importlib.import_module("wasmrt.__main__").main)


def test_the_metadata_is_valid_and_matches_the_project_file(metadata: Metadata) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (metadata.name, str(metadata.version)) == (project["name"], VERSION)
    assert (metadata.summary, metadata.keywords) == (project["description"], sorted(project["keywords"]))
    assert (metadata.license_expression, metadata.license_files) == ("MIT", ["LICENSE"])
    assert metadata.author == "The wasmrt authors"
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description == (ROOT / "README.md").read_text()
    assert sorted(metadata.provides_extra or []) == sorted(project["optional-dependencies"])
    assert str(metadata.requires_python) == project["requires-python"]


def test_the_sdist_contains_the_files_that_the_tests_need(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert not {"pyproject.toml", "requirements-dev.txt", "README.md", "LICENSE"} - inside
    assert not {f"tests/{path.relative_to(ROOT / 'tests')}" for path in (ROOT / "tests").rglob("test_*.py")} - inside
    assert not [path for path in inside if ".built" in path or "__pycache__" in path or path.endswith(".pyc")]
