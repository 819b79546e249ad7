"""Programs for WASI preview 1: adapted at installation, with an adapter that is fetched once and pinned."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
import wasmtime
from click.testing import CliRunner, Result

from tests.agent.plugins.conftest import MANIFEST
from tests.sandbox.guests.elsewhere import find
from tests.sandbox.programs.build import preview1_module, program
from wasmrt import load_plugins
from wasmrt.authoring.project import adapt_program, find_adapter
from wasmrt.cli import cli
from wasmrt.core.errors import BuildError, MissingToolchainError

pytestmark = pytest.mark.ci("toolchain")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def nowhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder on the PATH; no toolchain has been fetched yet."""
    for build in (preview1_module, program):
        build()  # with the toolchains that are hidden afterwards
    commands = home / "commands"
    commands.mkdir()
    monkeypatch.setenv("PATH", str(commands))
    monkeypatch.setenv("WASMRT_TOOLCHAINS", str(home / "toolchains"))
    return commands


@pytest.fixture(scope="session")
def preview1_adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The adapter, stored by an earlier run or fetched if allowed."""

    def may_fetch(question: str) -> bool:
        return os.environ.get("WASMRT_GUESTS_PREPARE") == "1"

    try:
        data = find_adapter(confirm=may_fetch)
    except BuildError as error:
        pytest.skip(f"WASMRT_GUESTS_PREPARE=1 lets this test fetch the adapter for WASI preview 1: {error}")
    path = tmp_path_factory.mktemp("adapter") / "adapter.wasm"
    path.write_bytes(data)
    return path


def command(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [str(word) for word in arguments], prog_name="wasmrt")
    assert result.exit_code == code, f"exit code {result.exit_code}: {result.stderr or result.exception!r}"
    return result


def answer(tool: str, **params: object) -> dict[str, object]:
    result: dict[str, object] = json.loads(command("run", tool, json.dumps(params)).stdout)
    return result


def pretended(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_core_module_can_be_installed_and_run(home: Path, preview1_adapter: Path) -> None:
    module = home / "words.wasm"
    module.write_bytes(preview1_module().read_bytes())
    refused = command("install", module, code=2).stderr
    assert "this is a core module" in refused
    assert "wasmrt install FILE --command" in refused
    command("install", module, "--command", "--adapter", preview1_adapter)
    ran = answer("words", args=["a", "b"], stdin="one\ntwo\n")
    assert ran == {"stdout": "a\nb\n> one\n> two\n", "stderr": "", "exit_code": 0}
    failed = command("run", "words", '{"args": ["fail"]}', code=1).stderr
    # The adapter reports the failure, but not its exit code.
    assert "the program ended with exit code 1: it did not work" in failed


def test_a_core_module_is_refused_as_a_plugin_until_it_is_converted(home: Path, preview1_adapter: Path) -> None:
    folder = home / "plugins"
    folder.mkdir()
    (folder / "words.toml").write_text(MANIFEST.format(name="words", more=""))
    module = folder / "words.wasm"
    module.write_bytes(preview1_module().read_bytes())
    refused = command("plugins", "check", folder, code=2).stderr
    with load_plugins(folder) as loaded:
        assert loaded.refused["words"].message in refused
    assert "run: wasmrt advanced plugins adapt words.wasm words.wasm" in refused
    command("plugins", "adapt", module, module, "--adapter", preview1_adapter)
    assert "1 valid, 0 invalid" in command("plugins", "check", folder).stderr
    with load_plugins(folder) as loaded:
        assert [tool.kind for tool in loaded] == ["wasi"]
    assert "cannot be written" in command("plugins", "adapt", module, home / "none/x.wasm", code=2).stderr


def test_an_adapted_program_reads_the_granted_workspace(home: Path, preview1_adapter: Path) -> None:
    module = home / "words.wasm"
    module.write_bytes(preview1_module().read_bytes())
    (home / "words.capabilities.json").write_text('{"workspace": {"allowed_prefixes": ["notes/"]}}')
    (home / "work/notes").mkdir(parents=True)
    (home / "work/notes/one.txt").write_text("from a file\n")
    command("install", module, "--command", "--adapter", preview1_adapter, "--yes")
    params = json.dumps({"args": ["read", "notes/one.txt"]})
    ran = json.loads(command("run", "words", params, "--workspace", home / "work").stdout)
    assert ran["stdout"] == "read\nnotes/one.txt\nfrom a file\n"


def test_a_registry_program_is_installed_and_runs(home: Path, preview1_adapter: Path) -> None:
    found = find("boolector", fetch=os.environ.get("WASMRT_GUESTS_PREPARE") == "1")
    if isinstance(found, str):
        pytest.skip(f"program boolector: {found}")
    command("install", found, "--command", "--adapter", preview1_adapter, "--name", "boolector")
    formula = (
        "(set-logic QF_BV)(declare-const a (_ BitVec 8))(assert (= (bvmul a #x03) #x15))(check-sat)(get-value (a))"
    )
    solved = answer("boolector", args=["--smt2", "-m"], stdin=formula, check=False)
    assert str(solved["stdout"]).startswith("sat\n")
    assert "#b00000111" in str(solved["stdout"])
    failed = command("run", "boolector", '{"args": ["--no-such-option"]}', code=1).stderr
    assert "exit code 1: boolector: invalid option '--no-such-option'" in failed


def test_a_component_needs_no_adapter(home: Path, nowhere: Path) -> None:
    module = home / "it.wasm"
    module.write_bytes(program().read_bytes())
    command("install", module, "--command")
    assert answer("it", args=["cat"], stdin="x")["stdout"] == "x"


def test_a_module_that_is_not_a_program_is_refused_by_its_exports(home: Path, preview1_adapter: Path) -> None:
    tool = Path(cli.__module__ and __import__("wasmrt").__file__).parent / "catalog/shipped/echo.wasm"
    refused = command("install", tool, "--command", "--name", "e", code=2).stderr
    assert "the component is not a program" in refused
    refused = command("install", tool, "--adapter", preview1_adapter, code=2).stderr
    assert "--adapter is only for WASI programs" in refused
    assert "a package is not a program" in command("install", home, "--command", code=2).stderr


def test_unknown_imports_of_a_module_are_named(preview1_adapter: Path) -> None:
    text = '(module (import "env" "launch" (func)) (memory (export "memory") 1) (func (export "_start") (call 0)))'
    with pytest.raises(BuildError) as caught:
        adapt_program(bytes(wasmtime.wat2wasm(text)), preview1_adapter.read_bytes())
    assert "env" in caught.value.output


def test_nothing_is_fetched_without_consent(home: Path, nowhere: Path) -> None:
    pretended(nowhere, "npm", "echo fetched >> fetched; exit 1")
    module = home / "words.wasm"
    module.write_bytes(preview1_module().read_bytes())
    refused = command("install", module, "--command", code=1).stderr
    assert "needs an adapter, which is in @bytecodealliance/jco on npm" in refused
    assert "run the command again with --yes" in refused
    assert [path.name for path in (home / "toolchains").iterdir()] == [".in-use"]


def test_without_a_network_the_error_names_the_next_step(home: Path, nowhere: Path) -> None:
    module = home / "words.wasm"
    module.write_bytes(preview1_module().read_bytes())
    alone = command("install", module, "--command", "--yes", code=1).stderr
    assert "requires npm or cargo" in alone
    assert "--adapter FILE" in alone
    pretended(nowhere, "npm", "echo no route to the registry >&2; exit 1")
    cut_off = command("install", module, "--command", "--yes", code=1).stderr
    assert "@bytecodealliance/jco 1.35.0 could not be downloaded from npm" in cut_off
    assert "no route to the registry" in cut_off
    assert "--adapter FILE" in cut_off


def test_an_adapter_with_a_wrong_digest_is_not_used_or_stored(home: Path, nowhere: Path) -> None:
    packed = home / "packed.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        member = tarfile.TarInfo("package/lib/wasi_snapshot_preview1.command.wasm")
        member.size = 8
        archive.addfile(member, io.BytesIO(b"\0asm\1\0\0\0"))
    pretended(nowhere, "npm", f"/bin/cp {packed} jco.tgz")
    with pytest.raises(BuildError) as caught:
        find_adapter(confirm=lambda _: True)
    assert caught.value.code == "unknown-binary"
    assert list((home / "toolchains").rglob("*.wasm")) == []


def test_without_npm_cargo_fetches_the_adapter(home: Path, nowhere: Path) -> None:
    place = "vendor/wasi-preview1-component-adapter-provider/artefacts"
    pretended(nowhere, "cargo", f"/bin/mkdir -p {place}\necho other >{place}/wasi_snapshot_preview1.command.wasm")
    asked: list[str] = []

    def agree(question: str) -> bool:
        asked.append(question)
        return True

    with pytest.raises(BuildError, match="has an unknown digest"):
        find_adapter(confirm=agree)
    (question,) = asked
    assert question.startswith(
        "Download wasi-preview1-component-adapter-provider 50.0.1 from crates.io, which contains"
    )


def test_a_modified_adapter_is_fetched_again(home: Path, nowhere: Path, preview1_adapter: Path) -> None:
    folder = home / "toolchains/adapters"
    folder.mkdir(parents=True)
    for digest in ("2a652d711c1fff34", "0b4fe490390ecc9c"):
        (folder / f"{digest}.wasm").write_bytes(preview1_adapter.read_bytes() + b"\0")
    with pytest.raises(MissingToolchainError, match="requires npm or cargo"):
        find_adapter(confirm=lambda _: True)
