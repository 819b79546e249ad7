from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import wasmrt
from wasmrt.authoring.project import Project, Step, build, create_project, load_template, open_project, read_component
from wasmrt.catalog.package import FolderFiles, pack
from wasmrt.catalog.sources import FileSource
from wasmrt.cli import cli
from wasmrt.core.errors import (
    BuildError,
    CapabilityFileError,
    ComponentError,
    InvalidComponentError,
    SourceError,
    UnknownImportError,
    UnknownWorldError,
)
from wasmrt.core.limits import MIB


def nobody(_question: str) -> bool:
    return False


@pytest.mark.ci("slow")
def test_build_reports_steps_and_checks_the_component(c_project: Project) -> None:
    told: list[str] = []

    @contextmanager
    def progress(doing: str) -> Iterator[None]:
        told.append(doing)
        yield

    built = build(c_project, confirm=nobody, progress=progress)

    assert told == ["compiling tool.c", "embedding wit/tool.wit", "making the component", "checking the component"]
    report = built.report
    assert report.world == "wasmrt:tool/provider@0.1.0"
    assert report.tools == ("weather",)
    assert report.size_bytes == len(read_component(c_project)) < 12_000
    assert "wasmrt:tool/http@0.1.0#fetch" in report.imports
    assert not [name for name in report.imports if name.startswith("wasi:")]
    assert report.denied == report.warnings == ()
    assert (c_project.build / "weather.capabilities.json").read_bytes() == c_project.sidecar.read_bytes()


@pytest.mark.ci("slow")
def test_unrequested_imports_are_reported_as_denied(c_project: Project) -> None:
    c_project.sidecar.write_text(json.dumps({"secrets": {"allowed_names": ["weather_key"]}}))
    report = build(c_project, confirm=nobody).report
    assert [line.partition(":")[0] for line in report.denied] == ["wasmrt", "wasmrt"]
    assert any("#fetch" in line and "no section http" in line for line in report.denied)
    assert any("no section workspace" in line for line in report.denied)
    assert any(line.startswith("secrets: requested") for line in report.warnings)


def test_removed_capability_file_is_removed_from_the_build(c_project: Project) -> None:
    c_project.sidecar.unlink()
    assert build(c_project, confirm=nobody).report.asks[0]
    assert not (c_project.build / "weather.capabilities.json").exists()


def test_failed_compile_shows_output_and_blocks_the_last_component(c_project: Project) -> None:
    source = c_project.folder / "tool.c"
    sound = source.read_text()
    source.write_text(sound + "\nint broken = ;\n")
    with pytest.raises(BuildError, match=r"compiling tool\.c failed") as failed:
        build(c_project, confirm=nobody)
    assert "expected expression" in failed.value.output
    assert str(c_project.folder) not in failed.value.message
    for use in (
        lambda: read_component(c_project),
        lambda: FileSource(c_project.component).fetch(max_bytes=MIB),
        lambda: pack(FolderFiles(c_project.folder)),
    ):
        with pytest.raises(SourceError, match=r"the last build failed, so weather\.wasm is older") as refused:
            use()
        assert refused.value.code == "build-failed"
        assert refused.value.hint == "correct the source, then run: wasmrt build"
    source.write_text(sound)
    build(c_project, confirm=nobody)
    assert FileSource(c_project.component).fetch(max_bytes=MIB).data == read_component(c_project)


def test_component_without_a_known_world_is_refused(c_project: Project) -> None:
    c_project.wit.write_text("package my:thing@1.0.0;\ninterface f { f: func(); }\nworld tool { import f; }\n")
    (c_project.folder / "tool.c").write_text(
        '__attribute__((import_module("my:thing/f@1.0.0"), import_name("f"))) void f(void);\n'
        '__attribute__((export_name("g"))) void g(void) { f(); }\n'
    )
    with pytest.raises(ComponentError) as refused:
        build(c_project, confirm=nobody)
    assert isinstance(refused.value, (UnknownWorldError, UnknownImportError))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [('"required": "place"', "is invalid at required"), ('"pattern": "a(?=b)"', "cannot run in linear time")],
)
def test_a_broken_schema_fails_the_build(c_project: Project, schema: str, reason: str) -> None:
    source = c_project.folder / "tool.c"
    text = source.read_text()
    sound = '\\"required\\": [\\"place\\"]'
    assert sound in text
    source.write_text(text.replace(sound, schema.replace('"', '\\"')))
    before = read_component(c_project)
    with pytest.raises(InvalidComponentError, match=reason) as refused:
        build(c_project, confirm=nobody)
    assert refused.value.code == "broken-schema"
    assert c_project.component.read_bytes() == before


def test_invalid_capability_file_fails_the_build(c_project: Project) -> None:
    c_project.sidecar.write_text('{"htpp": {}}')
    with pytest.raises(CapabilityFileError):
        build(c_project, confirm=nobody)


def test_edited_capability_file_is_reported_until_the_next_build(c_project: Project) -> None:
    command = ["inspect", str(c_project.component)]
    assert CliRunner().invoke(cli, command, prog_name="wasmrt").stderr == ""
    c_project.sidecar.write_text('{"workspace": {"allowed_prefixes": ["elsewhere/"]}}')
    assert "to update the copy, run: wasmrt build" in CliRunner().invoke(cli, command, prog_name="wasmrt").stderr
    build(c_project, confirm=nobody)
    assert CliRunner().invoke(cli, command, prog_name="wasmrt").stderr == ""


def test_missing_wit_file_error_has_a_hint(c_project: Project) -> None:
    c_project.wit.unlink()
    with pytest.raises(BuildError, match=r"wit/tool\.wit"):
        build(c_project, confirm=nobody)


@pytest.mark.ci("slow")
def test_projects_of_one_name_never_share_a_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler of this language writes one cache file, if it is older than the source."""
    shared, made = "{{cache}}/kept-{{name_snake}}.wasm", "{{cache}}/made-{{name_snake}}.wasm"
    compiler = """import pathlib, shutil, sys
kept, made = map(pathlib.Path, sys.argv[1:])
kept.exists() or shutil.copy("tool.c", kept)
pathlib.Path("makes-nothing").exists() or shutil.copy(kept, made)"""
    step = Step("compiling", ("python", "-c", compiler, shared, made))
    lazy = replace(load_template("c"), packages=(), steps=(step,), shared=(shared,), component=made)
    monkeypatch.setattr("wasmrt.authoring.project._build.load_template", lambda _language: lazy)
    monkeypatch.setenv("WASMRT_TOOLCHAINS", str(tmp_path / "toolchains"))
    tools = Path(wasmrt.__file__).parent / "catalog/shipped"
    told: list[str] = []

    @contextmanager
    def progress(doing: str) -> Iterator[None]:
        told.append(doing)
        if doing == "waiting for another build":
            fcntl.flock(other, fcntl.LOCK_UN)
        yield

    for folder, tool in (("here", "echo"), ("there", "time"), ("here", "echo")):
        (tmp_path / folder).mkdir(exist_ok=True)
        place = tmp_path / folder / "weather"
        project = open_project(place) if place.exists() else create_project("weather", "c", tmp_path / folder)
        shutil.copy(tools / f"{tool}.wasm", project.folder / "tool.c")
        assert build(project, confirm=nobody, progress=progress).report.tools == (tool,)
    assert "waiting for another build" not in told
    with next((tmp_path / "toolchains").rglob("c.lock")).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        build(project, confirm=nobody, progress=progress)
    assert "waiting for another build" in told
    (project.folder / "makes-nothing").touch()
    with pytest.raises(BuildError, match="did not produce made-weather"):
        build(project, confirm=nobody)


def test_reading_an_unbuilt_component_is_an_error(c_project: Project) -> None:
    c_project.component.unlink()
    with pytest.raises(BuildError) as missing:
        read_component(c_project)
    assert missing.value.code == "not-built"


def test_build_prints_size_requests_and_denials(c_project: Project) -> None:
    c_project.sidecar.write_text("{}")
    result = CliRunner().invoke(cli, ["build", str(c_project.folder)], prog_name="wasmrt")
    assert result.exit_code == 0, result.output
    assert "KiB, wasmrt:tool/provider@0.1.0" in result.stderr
    assert "compiling tool.c (" in result.stderr
    assert "compilers and build scripts ran " in result.stderr
    assert "will be denied if called: wasmrt:tool/http@0.1.0#fetch" in result.stderr


def test_failed_build_prints_the_compiler_output(c_project: Project) -> None:
    (c_project.folder / "tool.c").write_text("\x1b[31m nonsense")
    result = CliRunner().invoke(cli, ["build", str(c_project.folder)], prog_name="wasmrt")
    assert result.exit_code == 1
    assert "tool.c:1" in result.stderr
    assert "\x1b" not in result.output
    as_json = CliRunner().invoke(cli, ["build", str(c_project.folder), "--json"], prog_name="wasmrt")
    assert "tool.c:1" in json.loads(as_json.stderr)["output"]


def test_a_folder_without_a_project_is_a_usage_error(tmp_path: Path) -> None:
    for command in ("build", "test", "dev"):
        result = CliRunner().invoke(cli, [command, str(tmp_path)], prog_name="wasmrt")
        assert result.exit_code == 2
        assert "wasmrt new" in result.stderr
