"""Tests of the package file of a project, which a build completes below a marker line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.authoring.project import Project, build
from wasmrt.authoring.project._project import BuiltTool, complete_package_file, new_package_file
from wasmrt.catalog.package import FolderFiles, pack, read_archive, read_own_package
from wasmrt.cli import cli
from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import BuildError, PackageError


def nobody(_question: str) -> bool:
    return False


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(cli, [str(each) for each in arguments], prog_name="wasmrt")
    assert result.exit_code == 0, result.stderr or repr(result.exception)
    return result


def told(project: Project) -> dict[str, Any]:
    return tomllib.loads(project.package_file.read_text())


def test_build_completes_the_package_file(c_project: Project) -> None:
    built = told(c_project)["built"]

    assert built["world"] == "wasmrt:tool/provider@0.1.0"
    assert [tool["name"] for tool in built["tools"]] == ["weather"]
    assert built["tools"][0]["description"]
    assert built["digests"] == {
        "weather.wasm": digest_of(c_project.component.read_bytes()),
        "weather.capabilities.json": digest_of(c_project.sidecar.read_bytes()),
    }


@pytest.mark.ci("slow")
def test_second_build_keeps_the_authored_part(c_project: Project) -> None:
    before = c_project.package_file.read_text()
    mine = before.replace('license = ""', 'license = "MIT"  # mine')
    c_project.package_file.write_text(mine)
    build(c_project, confirm=nobody)

    assert c_project.package_file.read_text() == mine
    assert mine.count("[built]") == 1


@pytest.mark.ci("slow")
def test_a_fresh_project_is_packed_the_same_twice_inspected_and_installed(
    c_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    text = c_project.package_file.read_text()
    c_project.package_file.write_text(
        text.replace('license = ""', 'license = "MIT"').replace('source = ""', 'source = "https://example.com/w"')
    )

    run("pack", c_project.folder, "--to", first)
    build(c_project, confirm=nobody)
    run("pack", c_project.folder, "--to", second)

    assert first.read_bytes() == second.read_bytes()
    assert sorted(read_archive(first.read_bytes())) == [
        "README.md", "digests.json", "wasmrt.toml", "weather.capabilities.json", "weather.wasm",
    ]  # fmt: skip
    shown = " ".join(run("inspect", first).stdout.split())
    assert "version 0.1.0, license MIT, source https://example.com/w: Tells how warm it is at a place." in shown
    installed = json.loads(run("install", first, "--yes", "--json").stdout)
    assert (installed["name"], installed["digest"]) == ("weather", digest_of(c_project.component.read_bytes()))


@pytest.mark.parametrize("changed", ["component", "capabilities"])
def test_component_that_differs_from_the_build_is_refused(c_project: Project, changed: str) -> None:
    if changed == "component":
        c_project.component.write_bytes(c_project.component.read_bytes() + b"\0\1\0")
    else:
        c_project.sidecar.write_text('{"workspace": true}')

    for read in (pack, read_own_package):
        with pytest.raises(PackageError, match="has changed since the last build") as refused:
            read(FolderFiles(c_project.folder))
        assert (refused.value.code, refused.value.hint) == ("package-digest", "run: wasmrt build")


def test_changed_source_is_reported_by_pack(c_project: Project, tmp_path: Path) -> None:
    assert "the source has changed" not in run("pack", c_project.folder, "--to", tmp_path / "a.zip").stderr
    source = c_project.folder / "tool.c"
    source.write_text(source.read_text() + "\n")

    assert (
        "the source has changed since the last build"
        in run("pack", c_project.folder, "--to", tmp_path / "a.zip").stderr
    )


def test_a_section_of_the_same_name_by_the_author_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "wasmrt.toml"
    path.write_text(new_package_file("weather", "c") + "\n[built]\nworld = 'mine'\n")
    before = path.read_bytes()

    with pytest.raises(BuildError, match="cannot add the section"):
        complete_package_file(path, "w", (), {})
    assert path.read_bytes() == before


@given(name=st.text(max_size=20), about=st.text(max_size=300))
@settings(max_examples=examples(60), deadline=None)
def test_component_text_is_escaped_in_the_package_file(
    tmp_path_factory: pytest.TempPathFactory, name: str, about: str
) -> None:
    path = tmp_path_factory.mktemp("p") / "wasmrt.toml"
    path.write_text(new_package_file("weather", "c"))
    complete_package_file(path, "w", [BuiltTool(name, about)], {"weather.wasm": b"x"})
    built = tomllib.loads(path.read_text(encoding="utf-8"))["built"]

    assert built["tools"] == [{"name": name, "description": " ".join(about.split())[:200]}]
    assert built["digests"] == {"weather.wasm": digest_of(b"x")}
