"""Tests of `wasmrt cache`, and of the maximum sizes of compiled code and of the folders of builds."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

import wasmrt as package
from wasmrt.authoring.project import Project, Step, build, create_project, load_template

Run = Callable[..., Result]
MIB = 1024 * 1024
ECHO = Path(package.__file__).parent / "catalog/shipped/echo.wasm"


@pytest.fixture
def cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of an installation that shares nothing."""
    own = home.with_name("own-home")
    monkeypatch.setenv("WASMRT_HOME", str(own))
    (own / "data").mkdir(parents=True)
    (own / "data/config.toml").write_text(f"[cache]\nmax_compiled_bytes = {20 * MIB}\nmax_build_bytes = {20 * MIB}\n")
    return own / "cache"


def compiled(cache: Path, *names: str) -> None:
    """Write files of 8 MiB, the least recently used one first."""
    (cache / "compiled").mkdir(parents=True, exist_ok=True)
    for age, name in enumerate(names):
        _write(cache / "compiled" / name, age)


def toolchains(cache: Path, *names: str) -> list[Path]:
    """Write toolchains of 8 MiB, the least recently used one first."""
    folders = [cache / "toolchains" / name for name in names]
    for age, folder in enumerate(folders):
        folder.mkdir(parents=True)
        _write(folder / "program", age)
        (folder / "wasmrt-done").touch()
        os.utime(folder / "wasmrt-done", (1000 + age, 1000 + age))
    return folders


def _write(path: Path, age: int) -> None:
    with path.open("wb") as file:
        file.truncate(8 * MIB)
    os.utime(path, (1000 + age, 1000 + age))


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".in-use")}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose compiler copies its source, which is a component."""
    made = create_project("weather", "c", tmp_path)
    shutil.copy(ECHO, made.folder / "tool.c")
    step = Step("compiling", ("python", "-c", 'import shutil; shutil.copy("tool.c", "build/_tool.wasm")'))
    template = replace(load_template("c"), packages=(), needs=(), steps=(step,), component="build/_tool.wasm")
    monkeypatch.setattr("wasmrt.authoring.project._build.load_template", lambda _language: template)
    return made


def test_prune_removes_the_least_recently_used_entries_above_the_maximum_sizes(wasmrt: Run, cache: Path) -> None:
    compiled(cache, "a.cwasm", ".new-of-a-killed-process", "b.cwasm", "c.cwasm", "notes.txt")
    old, newer, newest = toolchains(cache, "pypi-0123456789ab", "npm-0123456789ab", "npm-ffffffffffff")
    shown = json.loads(wasmrt("cache", "show", "--json").stdout)
    assert shown["compiled"] == {"entries": 4, "bytes": 32 * MIB, "max_bytes": 20 * MIB}
    assert [Path(entry["path"]) for entry in shown["builds"]["entries"]] == [old, newer, newest]
    removed = json.loads(wasmrt("cache", "prune", "--json").stdout)
    assert removed["compiled"] == {"removed": 2, "bytes": 16 * MIB}
    assert [Path(entry["path"]) for entry in removed["builds"]["removed"]] == [old]
    assert names_in(cache / "compiled") == {"b.cwasm", "c.cwasm", "notes.txt"}
    assert names_in(cache / "toolchains") == {newer.name, newest.name}


def test_prune_all_removes_only_what_wasmrt_created(wasmrt: Run, cache: Path) -> None:
    compiled(cache, "a.cwasm")
    toolchains(cache, "npm-0123456789ab", "npm-of-another-program", "adapters", "cache/c", "cache/another-program")
    (cache / "mcp/files/local").mkdir(parents=True)
    assert "removed 1 compiled, 3 of builds: 32.0 MiB" in wasmrt("cache", "prune", "--all").stderr
    assert names_in(cache / "toolchains") == {"npm-of-another-program", "cache"}
    assert names_in(cache / "toolchains/cache") == {"another-program"}
    assert (cache / "mcp/files/local").is_dir()


def test_build_removes_unused_toolchains_above_the_maximum_size(wasmrt: Run, cache: Path, project: Project) -> None:
    toolchains(cache, "pypi-0123456789ab", "npm-0123456789ab", "npm-ffffffffffff")
    wasmrt("build", project.folder)
    assert names_in(cache / "toolchains") == {"npm-0123456789ab", "npm-ffffffffffff", "cache"}
    assert (cache / "toolchains/cache/c").is_dir()


def test_the_folders_that_a_build_used_are_kept_even_above_the_maximum_size(cache: Path, project: Project) -> None:
    [old] = toolchains(cache, "npm-0123456789ab")
    (cache / "toolchains/cache/c").mkdir(parents=True)
    _write(cache / "toolchains/cache/c/object", 0)
    build(project, confirm=lambda _question: False, max_build_bytes=1)
    assert not old.exists()
    assert (cache / "toolchains/cache/c/object").exists()


def test_prune_removes_no_folders_of_builds_during_a_build(wasmrt: Run, cache: Path, project: Project) -> None:
    [old] = toolchains(cache, "npm-0123456789ab")
    compiled(cache, "a.cwasm")
    messages: list[str] = []

    @contextmanager
    def prune_meanwhile(_label: str) -> Iterator[None]:
        messages.append(wasmrt("cache", "prune", "--all").stderr)
        yield

    build(project, confirm=lambda _question: False, progress=prune_meanwhile)
    assert "a build is running, so the folders of builds were not changed" in messages[0]
    assert old.is_dir() and not (cache / "compiled/a.cwasm").exists()


def test_a_running_tool_continues_after_its_compiled_code_was_removed(wasmrt: Run, cache: Path) -> None:
    with package.WasmToolRuntime() as runtime:
        echo = runtime.prepare("echo", ECHO)
        assert list((cache / "compiled").glob("*.cwasm"))
        wasmrt("cache", "prune", "--all")
        assert not list((cache / "compiled").glob("*.cwasm"))
        assert echo.execute({"message": "hi"}).result == "hi"


@pytest.mark.parametrize("size", ["1000", "-1", '"1 GB"', "2_000_000_000_000"])
def test_maximum_sizes_outside_of_the_range_are_refused(wasmrt: Run, cache: Path, size: str) -> None:
    (cache.parent / "data/config.toml").write_text(f"[cache]\nmax_build_bytes = {size}\n")
    assert "max_build_bytes must be a whole number from 16777216" in wasmrt("cache", "show", code=2).stderr
