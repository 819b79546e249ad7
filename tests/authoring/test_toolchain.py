"""Tests of toolchains without a network: commands are scripts, packages a local wheel or a fake npm."""

from __future__ import annotations

import os
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from wasmrt.authoring.project import (
    Need,
    Packages,
    Template,
    build,
    create_project,
    find_toolchain,
    load_template,
    template_names,
)
from wasmrt.cli import cli
from wasmrt.core.errors import BuildError, MissingToolchainError


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH; private toolchains are in another folder."""
    commands = tmp_path / "commands"
    commands.mkdir()
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("WASMRT_TOOLCHAINS", str(tmp_path / "toolchains"))
    return commands


def script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def template(*, needs: tuple[Need, ...] = (), packages: tuple[Packages, ...] = ()) -> Template:
    return replace(load_template("c"), language="made-up", needs=needs, packages=packages)


class Asked:
    """Gives the same answer to every question, and records the questions."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.questions: list[str] = []

    def __call__(self, question: str) -> bool:
        self.questions.append(question)
        return self.answer


def test_missing_command_error_has_install_hint() -> None:
    asked = Asked(True)
    with pytest.raises(MissingToolchainError, match="frobc is missing") as missing:
        find_toolchain(template(needs=(Need("frobc", "install Frob with its installer"),)), confirm=asked)
    assert missing.value.hint == "install Frob with its installer"
    assert asked.questions == []


def test_a_command_on_the_machine_is_used_and_nothing_is_fetched(machine: Path) -> None:
    script(machine, "frobc", "exit 0")
    asked = Asked(False)
    wanted = Packages("pypi", ("frob==1.0",), ("frobc",), "1 MB")
    found = find_toolchain(template(needs=(Need("frobc", ""),), packages=(wanted,)), confirm=asked)
    assert found.find("frobc") == str(machine / "frobc")
    assert asked.questions == []


def test_nothing_is_downloaded_without_consent(tmp_path: Path) -> None:
    asked = Asked(False)
    wanted = Packages("pypi", ("frob==1.0",), ("frobc",), "1 MB")
    with pytest.raises(MissingToolchainError, match=r"frob==1\.0 from PyPI") as missing:
        find_toolchain(template(packages=(wanted,)), confirm=asked)
    assert "--yes" in (missing.value.hint or "")
    assert asked.questions == ["Download frob==1.0 from PyPI into a private folder (1 MB)?"]
    assert list((tmp_path / "toolchains").glob("pypi-*")) == []


def make_wheel(folder: Path) -> None:
    about = "frob-1.0.dist-info"
    with zipfile.ZipFile(folder / "frob-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("frob.py", "def main():\n    print('frobbed')\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: frob\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/entry_points.txt", "[console_scripts]\nfrobc = frob:main\n")
        names = ["frob.py", *(f"{about}/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt", "RECORD"))]
        wheel.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in names))


@pytest.mark.ci("toolchain")
def test_a_python_package_goes_into_a_private_environment_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    wanted = template(packages=(Packages("pypi", ("frob==1.0",), ("frobc",), "1 MB"),))
    asked = Asked(True)

    found = find_toolchain(wanted, confirm=asked)
    command = found.find("frobc")
    assert command is not None
    assert command.startswith(str(tmp_path / "toolchains"))
    assert find_toolchain(wanted, confirm=Asked(False)).find("frobc") == command
    assert len(asked.questions) == 1
    assert not (Path(sys.executable).parent / "frobc").exists()


def test_npm_packages_go_into_a_private_folder_and_their_commands_are_found(machine: Path, tmp_path: Path) -> None:
    script(machine, "npm", 'mkdir -p node_modules/.bin && echo "#!/bin/sh" > node_modules/.bin/frobjs && '
           "chmod +x node_modules/.bin/frobjs")  # fmt: skip
    found = find_toolchain(template(packages=(Packages("npm", ("frob@1.0.0",), (), "1 MB"),)), confirm=Asked(True))
    (installed,) = (tmp_path / "toolchains").glob("npm-*/node_modules/.bin/frobjs")
    assert found.find("frobjs") == str(installed)


def test_failed_download_shows_output_and_is_retried(machine: Path) -> None:
    wanted = template(packages=(Packages("npm", ("frob@1.0.0",), (), "1 MB"),))
    script(machine, "npm", "echo no such package; exit 1")
    with pytest.raises(BuildError, match="could not be installed") as failed:
        find_toolchain(wanted, confirm=Asked(True))
    assert "no such package" in failed.value.output
    script(machine, "npm", "exit 0")
    assert len(find_toolchain(wanted, confirm=Asked(True)).folders) == 1


@pytest.mark.parametrize("yes", [False, True])
def test_failed_probe_is_an_error_with_the_command_to_run(machine: Path, tmp_path: Path, yes: bool) -> None:
    target = tmp_path / "target"
    script(machine, "frobc", f"echo {target}")
    script(machine, "frobup", f"mkdir {target}")
    wanted = template(needs=(Need("frobc", "run: frobup add wasm", ("frobc", "--target")),))
    with pytest.raises(MissingToolchainError, match="cannot build for WebAssembly yet") as missing:
        find_toolchain(wanted, confirm=Asked(yes))
    assert missing.value.hint == "run: frobup add wasm"
    assert not target.exists()
    target.mkdir()
    find_toolchain(wanted, confirm=Asked(False))


def test_the_templates_name_commands_versions_and_sizes() -> None:
    from wasmrt.authoring.project import template_names

    for language in template_names():
        loaded = load_template(language)
        assert loaded.title and loaded.steps
        assert all(need.hint for need in loaded.needs)
        for packages in loaded.packages:
            assert packages.size
            pinned = "==" if packages.registry == "pypi" else "@"
            assert all(pinned in name[1:] for name in packages.install), language


@pytest.mark.parametrize("language", ["rust", "go"])
def test_missing_compiler_error_has_install_hint(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    project = create_project("weather", language, tmp_path)
    with pytest.raises(MissingToolchainError) as missing:
        build(project, confirm=Asked(False))
    assert missing.value.hint
    assert not project.component.exists()


def test_hanging_command_is_killed_with_its_children(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wasmrt.authoring.project._toolchain.PROBE_SECONDS", 0.3)
    script(machine, "frobc", f"echo started; sleep 600 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(BuildError, match=r"longer than 0\.3 s") as failed:
        find_toolchain(template(needs=(Need("frobc", "get Frob", ("frobc",)),)), confirm=Asked(False))
    assert failed.value.output == "started"
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "status")
    assert any(_is_gone(child) for _ in range(2000))


def _is_gone(status: Path) -> bool:
    # The signal was sent, but the kernel delivers it when it next runs the process.
    os.sched_yield()
    try:
        return "Z (zombie)" in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_command_with_endless_output_is_killed(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.authoring.project._process.MAX_BUILD_LOG_BYTES", 1000)
    monkeypatch.setattr("wasmrt.authoring.project._process._POLL_SECONDS", 0.01)
    script(machine, "frobc", "yes")
    with pytest.raises(BuildError, match="frobc printed more than"):
        find_toolchain(template(needs=(Need("frobc", "get Frob", ("frobc",)),)), confirm=Asked(False))


def test_build_needs_yes_and_shows_registry_output(machine: Path, tmp_path: Path) -> None:
    script(machine, "node", "exit 0")
    script(machine, "npm", "echo the registry is away; exit 1")
    project = create_project("weather", "js-quickjs", tmp_path)

    def command(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, ["build", str(project.folder), *arguments], prog_name="wasmrt")
        return result.exit_code, result.stderr

    code, said = command()
    assert code == 1
    assert "componentize-qjs" in said
    assert "--yes" in said
    code, said = command("--yes")
    assert code == 1
    assert "the registry is away" in said


@pytest.mark.parametrize(("answer", "said"), [("n", "from npm"), ("y", "the registry is away")])
def test_downloads_ask_for_confirmation(
    answer: str, said: str, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(machine, "node", "exit 0")
    script(machine, "npm", "echo the registry is away; exit 1")
    monkeypatch.setattr("wasmrt.cli.author.progress.is_interactive", lambda: True)
    project = create_project("weather", "js-quickjs", tmp_path)
    result = CliRunner().invoke(cli, ["build", str(project.folder)], input=f"{answer}\n", prog_name="wasmrt")
    assert result.exit_code == 1
    assert "Download componentize-qjs" in result.stderr
    assert said in result.stderr


@pytest.mark.parametrize("language", template_names())
def test_template_downloads_state_their_size(language: str) -> None:
    template = load_template(language)
    sizes = [packages.size for packages in template.packages]
    assert all(size.endswith(" MB") for size in sizes)
    assert all("(" in step.label for step in template.fetch)
