"""Tests of `wasmrt inspect`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from wasmrt.authoring.project import find_wasm_tools, with_docs
from wasmrt.catalog.bundled import SHELL_ALIASES, SHELL_NAME

Run = Callable[..., Result]
Write = Callable[..., Path]
Encode = Callable[[str], bytes]

PLAIN = """(component
  (import "wasi:filesystem/preopens@0.2.0" (instance))
  (import "wasi:clocks/wall-clock@0.2.0" (instance))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance))
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  {exports})"""


def exporting(*names: str) -> str:
    return PLAIN.format(exports=" ".join(f'(func (export "{name}") (canon lift (core func $i "f")))' for name in names))


def test_imports_are_listed_by_required_capability(wasmrt: Run, tool_file: Write, encode: Encode) -> None:
    path = tool_file(data=encode(exporting("tidy")), sidecar={"workspace": {"allowed_prefixes": ["notes/"]}})
    report = json.loads(wasmrt("inspect", path, "--json").stdout)
    workspace, free = report["capabilities"]
    assert workspace == {
        "capability": "workspace",
        "imports": {"wasi:filesystem/preopens@0.2.0": []},
        "asks": ["may read files under notes/"],
        "granted": [],
        "refused": "wasmrt install asks you to grant it",
    }
    assert free["capability"] is None
    assert list(free["imports"]) == ["wasi:clocks/wall-clock@0.2.0", "wasi:clocks/monotonic-clock@0.2.0"]
    shown = wasmrt("inspect", path).stdout
    assert "a file, granted nothing" in shown
    assert "\n  workspace: wasi:filesystem/preopens@0.2.0" in shown
    assert "\n    requested: may read files under notes/\n    not granted yet: wasmrt install" in shown
    assert "\n  available to every tool: wasi:clocks@0.2.0 (wall-clock, monotonic-clock)" in shown


@pytest.mark.parametrize("name", [SHELL_NAME, *SHELL_ALIASES])
def test_inspect_of_the_shell_suggests_another_command(
    wasmrt: Run, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = wasmrt("inspect", name, code=2).stderr
    assert "is a tool of the host, not a component" in told and "runs commands in a workspace" in told
    assert SHELL_NAME in wasmrt(*told.rpartition("wasmrt ")[2].split()).stdout


def test_inspect_shows_request_and_grant(wasmrt: Run, tool_file: Write, encode: Encode, tmp_path: Path) -> None:
    narrower = tmp_path / "narrower.json"
    narrower.write_text(json.dumps({"workspace": {"allowed_prefixes": ["notes/public/"]}}))
    asked = {"workspace": {"allowed_prefixes": ["notes/"]}, "limits": {"fuel": 1000}}
    path = tool_file(data=encode(exporting("tidy")), sidecar=asked)
    wasmrt("install", path, "--grant", narrower, "--yes")
    shown = wasmrt("inspect", "parrot").stdout
    assert "    requested: may read files under notes/\n    granted: may read files under notes/public/\n" in shown
    assert "\n  limits\n" in shown
    wasmrt("install", path, "--yes")
    wasmrt("install", path, "--name", "other", "--yes")
    assert "    requested and granted: may read files under notes/\n" in wasmrt("inspect", "other").stdout


def test_inspect_reports_unused_requests(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file(sidecar={"http": {"allowlist": [{"host": "api.example.com", "methods": ["GET"]}]}})
    (http, *_) = json.loads(wasmrt("inspect", path, "--json").stdout)["capabilities"]
    assert (http["capability"], http["imports"], http["refused"]) == ("http", {}, None)
    assert "may GET https://api.example.com" in http["asks"][0]
    assert "\n  http: none of its imports uses this\n" in wasmrt("inspect", path).stdout


@pytest.mark.parametrize("count", [1, 8, 9, 60])
def test_report_with_many_tools_fits_one_screen(count: int, wasmrt: Run, tool_file: Write, encode: Encode) -> None:
    path = tool_file(data=encode(exporting(*(f"function-{number}" for number in range(count)))))
    shown = wasmrt("inspect", path).stdout
    assert shown.count("\n") <= 40
    assert max(map(len, shown.splitlines())) <= 120
    assert "function-0" in shown
    assert "--json" in shown


def test_params_are_listed_with_their_types(wasmrt: Run, tool_file: Write, encode: Encode, tmp_path: Path) -> None:
    shown = " ".join(wasmrt("inspect", "json").stdout.split())
    assert 'params: operation: "parse" | "query" | "stringify" | "validate", data: any, path?: string' in shown
    typed = """(component
      (core module $m (memory (export "memory") 1) (func (export "f") (param i32 i32 i32 i32 i32 i32))
        (func (export "r") (param i32 i32 i32 i32) (result i32) (i32.const 8)))
      (core instance $i (instantiate $m))
      (type $case' (variant (case "some" u8) (case "nothing"))) (export $case "shape" (type $case'))
      (type $words (list string)) (type $maybe (option u8))
      (func (export "draw") (param "shape" $case) (param "words" $words) (param "width" $maybe)
        (canon lift (core func $i "f") (memory (core memory $i "memory")) (realloc (core func $i "r")))))"""
    (draw,) = json.loads(wasmrt("inspect", tool_file(data=encode(typed)), "--json").stdout)["tools"]
    assert draw["description"].startswith("draw: func(shape: variant")
    (tmp_path / "w.wit").write_text("package a:b; world w { /// Draws.\n export draw: func(); }")
    documented = with_docs(encode(typed), find_wasm_tools().resolve_wit(tmp_path / "w.wit"), ("draw",))
    shown = wasmrt("inspect", tool_file(data=documented)).stdout
    assert "    Draws.\n    params: shape: " in shown
    assert '{tag: "some", value} | {tag: "nothing"}, words: array of string,' in " ".join(shown.split())


def test_wit_is_printed_alone_or_in_the_report(wasmrt: Run, tool_file: Write, encode: Encode) -> None:
    path = tool_file(data=encode(exporting("tidy")))
    shown = wasmrt("inspect", path, "--wit").stdout
    assert shown.startswith("package root:component;\n\nworld root {\n")
    assert "  export tidy: func();\n}" in shown
    assert json.loads(wasmrt("inspect", path, "--wit", "--json").stdout)["wit"] == shown.rstrip()
    assert "wit" not in json.loads(wasmrt("inspect", path, "--json").stdout)


def test_wit_of_an_invalid_component_is_refused(wasmrt: Run, tool_file: Write) -> None:
    told = wasmrt("inspect", tool_file(data=b"\0asm\x0d\0\x01\0\xff"), "--wit", code=1).stderr
    assert "error: wasm-tools component wit failed" in told
    assert "malformed section id" in told


HANDLES = """(component
  (type $door' (resource (rep i32)))
  (export $door "door" (type $door'))
  (core func $new (canon resource.new $door'))
  (core module $m (import "" "new" (func $new (param i32) (result i32)))
    (func (export "open") (result i32) (call $new (i32.const 7)))
    (func (export "count") (result i32) (i32.const 3)))
  (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
  (func (export "open-door") (result (own $door)) (canon lift (core func $i "open")))
  {count})"""
COUNT = '(func (export "count") (result u32) (canon lift (core func $i "count")))'


def test_function_without_json_form_is_reported_with_the_reason(wasmrt: Run, tool_file: Write, encode: Encode) -> None:
    path = tool_file(data=encode(HANDLES.format(count=COUNT)))
    report = json.loads(wasmrt("inspect", path, "--json").stdout)
    assert [tool["name"] for tool in report["tools"]] == ["count"]
    (refused,) = report["not_callable"]
    assert refused["function"].startswith("open-door: func()")
    assert "resource handle" in refused["problem"]
    assert "  not a tool: open-door: its result contains" in wasmrt("inspect", path).stdout
    assert wasmrt("run", path).stdout == "3\n"


def test_component_with_only_handles_is_refused(wasmrt: Run, tool_file: Write, encode: Encode) -> None:
    told = wasmrt("inspect", tool_file(data=encode(HANDLES.format(count=""))), code=2).stderr
    assert "resource" in told


def test_component_suffix_is_dropped_from_the_tool_name(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file("parrot.component", sidecar={"workspace": {"allowed_prefixes": ["a/"]}})
    assert wasmrt("inspect", path).stdout.startswith("parrot (a file")
    assert "installed parrot version 1" in wasmrt("install", path, "--yes").stderr
    assert "may read files under a/" in wasmrt("inspect", "parrot").stdout
