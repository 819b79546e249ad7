"""Components that know nothing of us: out of a registry's package, inspected, installed and run as they are."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.sandbox.guests.elsewhere import COMPONENTS, find
from wasmrt.authoring.project import find_wasm_tools, with_docs
from wasmrt.cli import cli

CORE = """(module (memory (export "memory") 1)
  (func (export "add") (param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1))))"""
WIT = """package made:here@1.0.0;
world sums {
  /// Adds two numbers.
  export add: func(a: s64, b: s64) -> s64;
}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Callable[[str], str]:
    """Puts a component here, under the name it has in the tests."""

    def put(name: str) -> str:
        found = find(name, fetch=os.environ.get("WASMRT_GUESTS_PREPARE") == "1")
        if isinstance(found, str):
            pytest.skip(f"component {name}: {found}")
        (tmp_path / f"{name}.component.wasm").symlink_to(found)
        return f"./{name}.component.wasm"

    return put


def command(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, list(arguments), prog_name="wasmrt")
    assert result.exit_code == code, f"exit code {result.exit_code}: {result.stderr or result.exception!r}"
    return result


def run(tool: str, part: str, **params: Any) -> Any:
    Path("params.json").write_text(json.dumps(params))
    return json.loads(command("run", tool, "@params.json", "--tool", part).stdout)


def as_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_of_another_project_is_inspected(name: str, elsewhere: Callable[[str], str]) -> None:
    report = json.loads(command("inspect", elsewhere(name), "--json").stdout)
    assert report["world"] == "plain functions"
    assert report["built_with"]["language"] == ["Rust"]
    assert "wit-component 0.20.0" in report["built_with"]["processed-by"]
    assert report["imports"]["wasi:random/random@0.2.0"] == ["get-random-bytes"]
    assert [refused["import"] for refused in report["refused"]] == ["wasi:filesystem/preopens@0.2.0"]
    tools = {tool["name"]: tool for tool in report["tools"]}
    if name == "wasm-tools":
        assert list(tools) == [f"tools-{verb}" for verb in (
            "parse", "print", "component-new", "component-wit", "component-embed", "metadata-show", "metadata-add",
        )]  # fmt: skip
        parse = tools["tools-parse"]
        assert parse["description"] == "local:wasm-tools/tools#parse: func(wat: string) -> result<list<u8>, string>"
        assert parse["schema"]["properties"] == {"wat": {"type": "string"}}
    else:
        assert list(tools) == ["generate", "generate-types"]
        wit = tools["generate-types"]["schema"]["properties"]["options"]["properties"]["wit"]
        assert [case["properties"]["tag"]["const"] for case in wit["anyOf"]] == ["source", "binary", "path"]
    assert [tool["problems"] for tool in tools.values()] == [[]] * len(tools)


def test_tools_of_other_projects_are_installed_and_run_without_a_grant(elsewhere: Callable[[str], str]) -> None:
    command("install", elsewhere("wasm-tools"), "--yes")
    assert run("wasm-tools", "tools-parse", wat="(component (core module))") == "AGFzbQ0AAQABCABhc20BAAAA"
    assert run("wasm-tools", "tools-print", binary="AGFzbQ0AAQABCABhc20BAAAA") == "(component\n  (core module (;0;))\n)"
    failed = command("run", "wasm-tools", '{"wat": "(modul)"}', "--tool", "tools-parse", code=1)
    assert "expected valid module field" in failed.stderr


def test_tools_of_other_projects_find_no_files(elsewhere: Callable[[str], str]) -> None:
    asked = json.dumps({"embed-opts": {"wit-path": "/etc", "dummy": True}})
    failed = command("run", elsewhere("wasm-tools"), asked, "--tool", "tools-component-embed", code=1)
    assert "the guest trapped" in failed.stderr
    assert "failed to find a pre-opened file descriptor" in failed.stderr


def test_exhausted_fuel_has_a_hint(elsewhere: Callable[[str], str]) -> None:
    component = elsewhere("wasm-tools")
    Path("itself.json").write_text(json.dumps({"binary": as_text(Path(component).read_bytes())}))
    ended = command("run", component, "@itself.json", "--tool", "tools-print", code=1)
    assert "used up its fuel of 500,000,000" in ended.stderr
    assert "raise limits.fuel" in ended.stderr


def test_a_toolchain_in_the_sandbox_builds_a_working_component(
    elsewhere: Callable[[str], str],
) -> None:
    tools, bindgen = elsewhere("wasm-tools"), elsewhere("js-component-bindgen")
    core = run(tools, "tools-parse", wat=CORE)
    embedded = run(tools, "tools-component-embed", **{"embed-opts": {"binary": core, "wit-source": WIT}})
    component = run(tools, "tools-component-new", binary=embedded)
    assert run(tools, "tools-component-wit", binary=component) == (
        "package root:component;\n\nworld root {\n  export add: func(a: s64, b: s64) -> s64;\n}\n"
    )
    Path("wit").mkdir()
    Path("wit", "adder.wit").write_text(WIT)
    documented = with_docs(base64.b64decode(component), find_wasm_tools().resolve_wit(Path("wit")), ("add",))
    # Tools of that age take the docs that are added, though they do not show them.
    assert "export add:" in run(tools, "tools-component-wit", binary=as_text(documented))
    Path("adder.wasm").write_bytes(documented)
    (adder,) = json.loads(command("inspect", "./adder.wasm", "--json").stdout)["tools"]
    assert (adder["name"], adder["description"]) == ("add", "Adds two numbers.")
    # One beyond what a double holds goes in and comes out whole.
    assert run("./adder.wasm", "add", a="9007199254740992", b=1) == "9007199254740993"

    made = run(bindgen, "generate", component=component, options={"name": "adder"})
    files = dict(made["files"])
    assert made["exports"] == [["add", "function"]]
    assert base64.b64decode(files["adder.d.ts"]).decode() == "export function add(a: bigint, b: bigint): bigint;\n"
    assert "BigInt.asIntN(64" in base64.b64decode(files["adder.js"]).decode()


def test_wit_of_other_projects_becomes_declarations(elsewhere: Callable[[str], str]) -> None:
    options = {"wit": {"tag": "source", "value": WIT}}
    ((name, text),) = run(elsewhere("js-component-bindgen"), "generate-types", name="sums", options=options)
    assert name == "sums.d.ts"
    assert "Adds two numbers." in base64.b64decode(text).decode()
