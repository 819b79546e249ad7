from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wasmrt.authoring.project import Project, build, create_project, find_toolchain, load_template
from wasmrt.core.errors import MissingToolchainError


@pytest.fixture(scope="session")
def built_c(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The built C template, the smallest tool that uses HTTP and the workspace."""
    try:
        find_toolchain(load_template("c"), confirm=lambda _question: False)
    except MissingToolchainError as missing:
        pytest.skip(f"c: {missing.message}: {missing.hint}")
    project = create_project("weather", "c", tmp_path_factory.mktemp("c"))
    build(project, confirm=lambda _question: False)
    return project


@pytest.fixture
def c_project(built_c: Project, tmp_path: Path) -> Project:
    """A copy of the built C project that tests may change."""
    folder = tmp_path / "weather"
    shutil.copytree(built_c.folder, folder)
    return Project(folder, built_c.name, built_c.language)


@pytest.fixture
def write_cases() -> Callable[..., None]:
    """Replaces the test cases of a project."""

    def write(project: Project, *cases: Any) -> None:
        shutil.rmtree(project.folder / "tests", ignore_errors=True)
        (project.folder / "tests").mkdir()
        (project.folder / "tests" / "cases.json").write_text(json.dumps(list(cases)))

    return write
