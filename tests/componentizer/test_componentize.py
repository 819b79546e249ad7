"""Core modules become components that the engine accepts, or are refused in words."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wasmrt.componentizer import componentize
from wasmrt.config import WasmRuntimeConfig
from wasmrt.errors import ComponentError, CoreModuleError, NotWasmError, UnknownImportError, WasmrtError
from wasmrt.guest.engine import wat2wasm
from wasmrt.runtime import WasmToolRuntime

ROOT = Path(__file__).resolve().parents[2]
NEAR = (ROOT / "wit/near-agent/0.3.0/tool.wit").read_text()
EXPORTS = """
  (memory (export "memory") 1)
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
  (func (export "near:agent/tool@0.3.0#execute") (param i32 i32 i32 i32 i32) (result i32) (i32.const 512))
  (func (export "near:agent/tool@0.3.0#schema") (result i32) (i32.const 512))
  (func (export "near:agent/tool@0.3.0#description") (result i32) (i32.const 512))
"""


def wrap(wat: str, wit: str = NEAR, world: str | None = None) -> bytes:
    return componentize(wat2wasm(wat), wit, assemble=wat2wasm, world=world)


def accepted(component: bytes) -> WasmToolRuntime:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        runtime.prepare("made", component)
    return runtime


@pytest.mark.parametrize("package", ["unversioned", "0.2.0", "0.3.0", "0.4.1"])
def test_every_agent_world_can_be_wrapped(package: str) -> None:
    version = "" if package == "unversioned" else f"@{package}"
    wit = (ROOT / f"wit/near-agent/{package}/tool.wit").read_text()
    accepted(wrap(f"(module {EXPORTS.replace('@0.3.0', version)})", wit))


def test_functions_that_a_world_exports_itself_are_tools() -> None:
    wit = """package a:b;
    interface api { twice: func(a: s64) -> s64; }
    world w {
        export add: func(a: s64, b: s64) -> s64;
        export api;
        export greet: func(names: list<string>) -> result<string, string>;
    }"""
    module = """(module (memory (export "memory") 1)
      (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
      (func (export "add") (param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1)))
      (func (export "a:b/api#twice") (param i64) (result i64) (i64.mul (local.get 0) (i64.const 2)))
      (data (i32.const 512) "\\00\\00\\00\\00\\10\\02\\00\\00\\02\\00\\00\\00") (data (i32.const 528) "hi")
      (func (export "greet") (param i32 i32) (result i32) (i32.const 512))
      (func (export "cabi_post_greet") (param i32)))"""
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        made = runtime.prepare("made", wrap(module, wit))
        assert {spec.name for spec in made.tools} == {"add", "api-twice", "greet"}
        assert made.tool("add").execute({"a": 2**53, "b": 1}).result == str(2**53 + 1)
        assert made.tool("api-twice").execute({"a": 21}).result == 42
        assert made.tool("greet").execute({"names": ["Ada"]}).result == "hi"


def test_host_functions_that_are_not_used_are_left_out() -> None:
    one = '(import "near:agent/host@0.3.0" "now-millis" (func (result i64)))'
    component = wrap(f"(module {one} {EXPORTS})")
    assert b"now-millis" in component
    assert b"workspace-read" not in component
    assert b"near:agent/host" not in wrap(f"(module {EXPORTS})")


def test_preview_1_is_met_by_a_null_one() -> None:
    wasi = '(import "wasi_snapshot_preview1" "{}" (func {}))'
    imports = [
        wasi.format("clock_time_get", "(param i32 i64 i32) (result i32)"),
        wasi.format("fd_write", "(param i32 i32 i32 i32) (result i32)"),
        wasi.format("random_get", "(param i32 i32) (result i32)"),
        wasi.format("path_open", "(param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)"),
    ]
    component = wrap(f"(module {' '.join(imports)} {EXPORTS})")
    assert b"wasi:" not in component
    accepted(component)


def test_an_import_that_comes_twice_gets_a_name_of_its_own() -> None:
    twice = '(import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))' * 2
    accepted(wrap(f"(module {twice} {EXPORTS})"))


def test_the_initialiser_runs_before_the_first_call_and_may_already_call_the_host() -> None:
    log = '(import "near:agent/host@0.3.0" "now-millis" (func $now (result i64)))'
    # Without the initialiser the description is empty; it stores the length of the text at 96.
    start = """(func (export "_initialize")
      (if (i64.ne (call $now) (i64.const -1)) (then (i32.store (i32.const 516) (i32.const 5)))))"""
    data = '(data (i32.const 512) "\\60\\00\\00\\00") (data (i32.const 96) "ready")'
    component = wrap(f"(module {log} {EXPORTS} {data} {start})")
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        assert runtime.prepare("made", component).description == "ready"


@pytest.mark.parametrize(
    ("wat", "error", "words"),
    [
        ("(module)", ComponentError, "no memory"),
        ('(module (memory (export "memory") 1))', ComponentError, "does not export"),
        (f'(module (import "env" "puts" (func)) {EXPORTS})', UnknownImportError, "env puts"),
        (
            f'(module (import "near:agent/host@0.3.0" "no" (func)) {EXPORTS})',
            UnknownImportError,
            "which the world lacks",
        ),
        (f'(module (import "env" "table" (table 1 funcref)) {EXPORTS})', ComponentError, "the table env.table"),
        ("(component)", CoreModuleError, "not a core module"),
    ],
)
def test_a_module_that_does_not_fit_is_refused_by_name(wat: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        wrap(wat)


def test_bytes_that_are_no_module_are_refused() -> None:
    with pytest.raises(NotWasmError):
        componentize(b"#!/bin/sh", NEAR, assemble=wat2wasm)


@pytest.mark.parametrize(
    ("wit", "words"),
    [
        ("interface x {}", "'package' is expected"),
        ("package a:b; interface x { resource r; }", "is expected"),
        ("package a:b; world w { import x; }", "no interface 'x'"),
        ("package a:b; world v {} world w {}", "no single world"),
        ("package a:b; interface i { f: func(a: " + "list<" * 40 + "u8" + ">" * 40 + "); }", "nested deeper"),
        ("package a:b; world w { export i; } interface i { f: func(a: thing); }", "'thing'"),
        ("package a:b; \u2603", "not expected here"),
        ("package a:b; world w { export f: func(a: thing); }", "'thing'"),
        ("package a:b; world w { import f: func(); }", "';' is expected"),
    ],
)
def test_wit_that_is_wrong_or_beyond_us_is_refused_with_the_reason(wit: str, words: str) -> None:
    module = '(module (memory (export "memory") 1) (func (export "a:b/i#f")) (func (export "f")))'
    with pytest.raises(ComponentError, match=words):
        wrap(module, wit)


def test_borrowed_types_of_borrowed_types_are_found() -> None:
    wit = """
    package a:b@1.0.0;
    interface base { enum kind { one, two } record pair { kind: kind, flag: bool } }
    interface middle { use base.{pair}; record box { pair: pair, list: list<pair> } }
    interface face {
        use middle.{box};
        type boxes = list<box>;
        flags sides { left, right }
        variant shape { none, some(boxes), sided(tuple<sides, option<u64>>) }
        f: func(shape: shape) -> result<box, shape>;
    }
    world w { export face; }
    """
    module = """(module (memory (export "memory") 1)
      (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
      (func (export "a:b/face@1.0.0#f") (param i32 i32 i32 i64) (result i32) (i32.const 512)))"""
    accepted(wrap(module, wit))


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_module_is_refused_or_wrapped_and_nothing_else(data: st.DataObject) -> None:
    module = bytearray(
        wat2wasm(f'(module (import "wasi_snapshot_preview1" "sched_yield" (func (result i32))) {EXPORTS})')
    )
    for _ in range(data.draw(st.integers(1, 4))):
        module[data.draw(st.integers(0, len(module) - 1))] = data.draw(st.integers(0, 255))
    del module[data.draw(st.integers(8, len(module))) :]
    with contextlib.suppress(WasmrtError):
        componentize(bytes(module), NEAR, assemble=wat2wasm)


@settings(max_examples=200)
@given(st.text(max_size=200) | st.lists(st.sampled_from(NEAR.split()), max_size=60).map(" ".join))
def test_any_text_is_wit_or_is_refused(text: str) -> None:
    with contextlib.suppress(WasmrtError):
        wrap(f"(module {EXPORTS})", text)
