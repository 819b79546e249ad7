"""Tests that unchanged projects are not rebuilt, and changed ones are."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import wasmrt
from wasmrt.authoring.project import (
    Built,
    Need,
    Project,
    Step,
    Template,
    build,
    create_project,
    is_stale,
    load_template,
)
from wasmrt.cli import cli
from wasmrt.core.errors import BuildError

TOOLS = Path(wasmrt.__file__).parent / "catalog/shipped"
COMPILER = """import pathlib, shutil
pathlib.Path("edit-me").exists() and pathlib.Path("edit-me").write_text("meanwhile")
shutil.copy("tool.c", "build/_tool.wasm")"""


class Place:
    """A project whose compiler copies its source, a component, and its template, which tests may change."""

    def __init__(self, project: Project, template: Template) -> None:
        self.project = project
        self.template = template

    def build(self) -> Built:
        return build(self.project, confirm=lambda _question: False)

    def __getitem__(self, name: str) -> Path:
        return self.project.folder / name


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    project = create_project("weather", "c", tmp_path)
    shutil.copy(TOOLS / "echo.wasm", project.folder / "tool.c")
    step = Step("compiling", ("python", "-c", COMPILER))
    lazy = replace(load_template("c"), packages=(), needs=(), steps=(step,), component="build/_tool.wasm")
    made = Place(project, lazy)
    monkeypatch.setattr("wasmrt.authoring.project._build.load_template", lambda _language: made.template)
    return made


def test_second_build_is_skipped_with_the_same_report(place: Place) -> None:
    first = place.build()
    times = {path: path.stat().st_mtime_ns for path in place.project.folder.rglob("*")}
    second = place.build()
    assert (first.unchanged, second.unchanged) == (False, True)
    assert second.report == first.report
    assert {path: path.stat().st_mtime_ns for path in place.project.folder.rglob("*")} == times


def test_a_changed_dependency_rebuilds_and_a_git_operation_does_not(place: Place) -> None:
    for folder in (".git", "node_modules"):
        place[folder].mkdir()
        (place[folder] / "a").write_text("before")
    place.build()
    (place[".git"] / "a").write_text("after")
    assert place.build().unchanged
    (place["node_modules"] / "a").write_text("after")
    assert not place.build().unchanged


def test_newer_time_alone_does_not_rebuild(place: Place) -> None:
    place.build()
    component = place["build/weather.wasm"]
    os.utime(place["tool.c"], ns=(0, component.stat().st_mtime_ns + 1))
    assert is_stale(place.project)
    assert place.build().unchanged
    assert not is_stale(place.project), "wasmrt test would ask for a build that does nothing"


def edit_keeping_time_and_size(place: Place) -> None:
    status, data = place["README.md"].stat(), bytearray(place["README.md"].read_bytes())
    data[0] ^= 1
    place["README.md"].write_bytes(data)
    os.utime(place["README.md"], ns=(status.st_atime_ns, status.st_mtime_ns))


def other_template(place: Place) -> None:
    folder = shutil.copytree(place.template.folder, place.project.folder.parent / "template")
    with (folder / "template.toml").open("a") as file:
        file.write("# another option\n")
    place.template = replace(place.template, folder=folder)


CHANGES: dict[str, Callable[[Place], object]] = {
    "a source": lambda place: shutil.copy(TOOLS / "time.wasm", place["tool.c"]),
    "an edit that keeps time and size": edit_keeping_time_and_size,
    "a new file": lambda place: place["more.h"].touch(),
    "a hidden new file": lambda place: place[".hidden"].touch(),
    "a removed file": lambda place: place["tests/weather.json"].unlink(),
    "a mode": lambda place: place["README.md"].chmod(0o700),
    "the world": lambda place: place["wit/tool.wit"].write_text(place["wit/tool.wit"].read_text() + "\n// more\n"),
    "the capability file": lambda place: place["weather.capabilities.json"].write_text("{}"),
    "the package file": lambda place: place["wasmrt.toml"].write_text("# mine\n" + place["wasmrt.toml"].read_text()),
    "what a build wrote into the package file": lambda place: place["wasmrt.toml"].write_text(
        place["wasmrt.toml"].read_text() + "# mine\n"
    ),
    "a component that is gone": lambda place: place["build/weather.wasm"].unlink(),
    "a component that is another": lambda place: shutil.copy(TOOLS / "json.wasm", place["build/weather.wasm"]),
    "a sidecar beside it that is gone": lambda place: place["build/weather.capabilities.json"].unlink(),
    "no build folder": lambda place: shutil.rmtree(place["build"]),
    "a template": other_template,
    "no capability file": lambda place: place["weather.capabilities.json"].unlink(),
}


@pytest.mark.ci("toolchain")
def test_any_changed_input_rebuilds(place: Place) -> None:
    place.build()
    missed = []
    for change, make in CHANGES.items():
        make(place)
        if place.build().unchanged:
            missed.append(change)
        assert place["build/weather.wasm"].read_bytes() == place["tool.c"].read_bytes(), change
    assert missed == []
    assert place.build().unchanged


def test_new_wasmrt_version_rebuilds(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.build()
    monkeypatch.setattr("wasmrt.authoring.project._unchanged.version", lambda name: f"{name} 99")
    assert not place.build().unchanged


@pytest.mark.ci("slow")
def test_new_toolchain_version_rebuilds(place: Place) -> None:
    def told(version: str) -> None:
        need = Need("python3", "", version=("python", "-c", f"print({version!r})"))
        place.template = replace(place.template, needs=(need,))

    told("1.0")
    place.build()
    assert place.build().unchanged
    told("1.1")
    assert not place.build().unchanged
    place.template = replace(
        place.template, needs=(Need("python3", "", version=("python", "-c", "raise SystemExit(1)")),)
    )
    assert not place.build().unchanged
    assert not place.build().unchanged, "a toolchain that does not say what it is may be any"


def test_file_edited_during_a_build_rebuilds(place: Place) -> None:
    place["edit-me"].write_text("before")
    place.build()
    assert not place.build().unchanged


def test_unconfined_build_is_never_skipped(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.authoring.project._confined._NEEDED", frozenset({"no-such-layer"}))
    place.build()
    assert not place.build().unchanged


@pytest.mark.ci("slow")
def test_failed_build_is_not_recorded(place: Place) -> None:
    place.build()
    sound = place.template
    place.template = replace(sound, steps=(Step("failing", ("python", "-c", "raise SystemExit(1)")),))
    source = place["tool.c"].read_bytes()
    place["tool.c"].write_bytes(b"")
    with pytest.raises(BuildError):
        place.build()
    place["tool.c"].write_bytes(source)
    place.template = sound
    assert not place.build().unchanged


@pytest.mark.ci("slow")
def test_project_cannot_contain_a_build_record(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An untrusted project cannot contain a forged build record."""
    place.build()
    monkeypatch.setenv("WASMRT_HOME", str(place.project.folder.parent / "another-home"))
    assert not place.build().unchanged
    shutil.move(place.project.folder, place.project.folder.with_name("moved"))
    moved = Project(place.project.folder.with_name("moved"), "weather", "c")
    assert not build(moved, confirm=lambda _question: False).unchanged


def test_skipped_build_is_reported(place: Place) -> None:
    command = ["build", str(place.project.folder)]
    CliRunner().invoke(cli, command, prog_name="wasmrt")
    told = CliRunner().invoke(cli, command, prog_name="wasmrt").stderr
    assert "weather.wasm is up to date" in told
    assert "compiling" not in told
    data = json.loads(CliRunner().invoke(cli, [*command, "--json"], prog_name="wasmrt").stdout)
    assert data["unchanged"] is True
    assert data["tools"] == ["echo"]


@pytest.mark.ci("slow")
def test_ctrl_c_kills_a_compiler_and_its_children(place: Place) -> None:
    place.build()
    before = place["build/weather.wasm"].read_bytes()
    compiler = """import os, pathlib, subprocess, sys, time
pathlib.Path("build/_tool.wasm").write_bytes(b"half")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("build/_pids.new").write_text(f"{os.getpid()} {child.pid}")
os.rename("build/_pids.new", "build/_pids")
time.sleep(600)"""
    whole = place.template
    place.template = replace(whole, steps=(Step("compiling", ("python", "-c", compiler)),))
    place["more.h"].touch()
    running: list[int] = []
    ended = threading.Event()

    def interrupt() -> None:
        while not place["build/_pids"].exists() and not ended.wait(0.01):
            pass
        running.extend(os.pidfd_open(int(pid)) for pid in place["build/_pids"].read_text().split())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            place.build()
    finally:
        signal.signal(signal.SIGINT, handler)
        ended.set()
        thread.join()
    for pid in running:
        assert select.select([pid], [], [], 10)[0], "it runs on"
        os.close(pid)
    assert len(running) == 2
    assert place["build/weather.wasm"].read_bytes() == before
    place["build/_pids"].unlink()
    place.template = whole
    assert not place.build().unchanged
