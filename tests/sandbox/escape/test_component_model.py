"""Traps, link errors and invalid modules of the specifications' own suites are typed errors of wasmrt.

Equivalents written from the component model's and the core specification's text, by the rule each case breaks.
"""

from __future__ import annotations

import pytest
from wasmrt.testing import attacks
from wasmrt.testing.attacks import Body

from tests.sandbox.escape.conftest import Make, ended
from wasmrt import ComponentError, PreparedTool, WasmToolRuntime
from wasmrt.core.errors import (
    InstantiationError,
    InvalidComponentError,
    NotWasmError,
    TrapError,
    UnknownImportError,
)
from wasmrt.sandbox.guest.engine import wat2wasm

_TABLE = "(table 1 funcref) (type $nullary (func)) (type $unary (func (param i32))) (func $f (type $unary))"

TRAPS = {
    "unreachable": Body(execute="unreachable"),
    "integer-divide-by-zero": Body(execute="(i32.div_s (i32.const 1) (i32.const 0))"),
    "integer-overflow": Body(execute="(i32.div_s (i32.const 0x80000000) (i32.const -1))"),
    "remainder-by-zero": Body(execute="(drop (i64.rem_u (i64.const 1) (i64.const 0))) (call $ok)"),
    "conversion-of-nan": Body(execute="(i32.trunc_f32_s (f32.const nan))"),
    "conversion-overflow": Body(execute="(i32.trunc_f64_u (f64.const 1e300))"),
    "load-out-of-bounds": Body(execute="(i32.load (i32.const -4))"),
    "store-out-of-bounds": Body(execute="(i64.store offset=0xfffffff0 (i32.const 0) (i64.const 1)) (call $ok)"),
    "copy-out-of-bounds": Body(execute="(memory.copy (i32.const 0) (i32.const -1) (i32.const 2)) (call $ok)"),
    "init-of-a-dropped-segment": Body(
        functions='(data $d "xyz")',
        execute="(data.drop $d) (memory.init $d (i32.const 0) (i32.const 0) (i32.const 1)) (call $ok)",
    ),
    "table-out-of-bounds": Body(
        functions=_TABLE, execute="(drop (table.get 0 (i32.const 9))) (call $ok)"
    ),
    "element-undefined": Body(
        functions=_TABLE, execute="(call_indirect (type $nullary) (i32.const 9)) (call $ok)"
    ),
    "element-null": Body(functions=_TABLE, execute="(call_indirect (type $nullary) (i32.const 0)) (call $ok)"),
    "signature-mismatch": Body(
        functions=_TABLE + "(elem (i32.const 0) $f)",
        execute="(call_indirect (type $nullary) (i32.const 0)) (call $ok)",
    ),
    "stack-exhausted": Body(functions="(func $r (result i32) (call $r))", execute="(call $r)"),
    "import-in-post-return": Body(imports=("now-millis",), post_return="(drop (call $now-millis))"),
    "unaligned-list": Body(
        imports=("subscribe-duration", "poll"),
        execute="(call $poll (i32.const 65537) (i32.const 1) (i32.const 256)) (call $ok)",
    ),
    "list-out-of-bounds": Body(
        imports=("poll",), execute="(call $poll (i32.const 65536) (i32.const 0x3fffffff) (i32.const 256)) (call $ok)"
    ),
    "list-whose-size-overflows": Body(
        imports=("poll",), execute="(call $poll (i32.const 65536) (i32.const -1) (i32.const 256)) (call $ok)"
    ),
    "unaligned-return-pointer": Body(
        imports=("get-random-bytes",), execute="(call $get-random-bytes (i64.const 1) (i32.const 257)) (call $ok)"
    ),
    "return-pointer-out-of-bounds": Body(
        imports=("get-random-bytes",), execute="(call $get-random-bytes (i64.const 1) (i32.const -8)) (call $ok)"
    ),
    "string-that-is-not-utf-8": Body(
        text=b"\xff\xff", imports=("secret-exists",),
        execute="(drop (call $secret-exists (i32.const 1024) (i32.const 2))) (call $ok)",
    ),
    "surrogate-in-utf-8": Body(
        text=b"\xed\xa0\x80", imports=("secret-exists",),
        execute="(drop (call $secret-exists (i32.const 1024) (i32.const 3))) (call $ok)",
    ),
    "result-discriminant": Body(imports=("exit",), execute="(call $exit (i32.const 2)) (call $ok)"),
    "option-discriminant": Body(
        imports=("http-request",),
        execute="(call $http-request (i32.const 512) (i32.const 0) (i32.const 512) (i32.const 0) (i32.const 512) "
        "(i32.const 0) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256)) "
        "(call $ok)",
    ),
    "unaligned-realloc": Body(realloc="(i32.const 65537)", imports=("get-environment",), execute="(i32.const 3)"),
    "borrow-of-nothing": Body(imports=("block",), execute="(call $block (i32.const 0)) (call $ok)"),
    "drop-of-nothing": Body(imports=("drop-pollable",), execute="(call $drop-pollable (i32.const 1)) (call $ok)"),
}  # fmt: skip


@pytest.mark.parametrize("body", TRAPS.values(), ids=TRAPS.keys())
def test_specification_traps_are_typed_errors(make: Make, honest: PreparedTool, body: Body) -> None:
    error = ended(make(body))
    assert isinstance(error, TrapError)
    assert error.code.startswith("trap") or error.code == "stopped"
    assert honest.execute({}).result == {"ok": True}


def test_a_trap_affects_only_its_own_call(make: Make) -> None:
    # Traps if there are params beyond the empty object, otherwise returns: the same tool, call after call.
    tool = make(Body(execute="(if (i32.gt_u (local.get $length) (i32.const 2)) (then (unreachable))) (call $ok)"))
    for _ in range(3):
        assert isinstance(ended(tool, {"trap": True}), TrapError)
        assert tool.execute({}).result == {"ok": True}


_INSTANCE = """(core module $m (memory (export "m") 1)
  (func (export "f") (param i32)) (func (export "r") (result i32) unreachable))
  (core instance $i (instantiate $m))"""

INVALID = {
    "two-exports-of-one-name": '(component (component $c) (export "a" (component $c)) (export "a" (component $c)))',
    "export-names-that-differ-in-case": (
        '(component (component $c) (export "a-b" (component $c)) (export "A-B" (component $c)))'
    ),
    "two-imports-of-one-name": '(component (import "a" (func)) (import "a" (func)))',
    "name-that-is-not-kebab-case": '(component (import "not_kebab" (func)))',
    "empty-name": '(component (import "" (func)))',
    "version-that-is-none": '(component (import "a:b/c@one" (instance)))',
    "empty-record": "(component (type (record)))",
    "empty-variant": "(component (type (variant)))",
    "empty-enum": "(component (type (enum)))",
    "empty-flags": "(component (type (flags)))",
    "empty-tuple": "(component (type (tuple)))",
    "two-fields-of-one-name": '(component (type (record (field "a" u8) (field "a" u8))))',
    "two-cases-of-one-name": '(component (type (variant (case "a") (case "a"))))',
    "thirty-three-flags": "(component (type (flags " + " ".join(f'"f{n}"' for n in range(33)) + ")))",
    "borrow-in-a-result": '(component (import "r" (type $r (sub resource))) (type (func (result (borrow $r)))))',
    "own-of-what-is-no-resource": "(component (type $t u8) (type (own $t)))",
    "method-without-self": '(component (import "r" (type $r (sub resource))) (import "[method]r.f" (func)))',
    "method-of-an-unknown-resource": '(component (import "[method]nobody.f" (func)))',
    "constructor-of-another-type": (
        '(component (import "r" (type $r (sub resource))) (import "[constructor]r" (func (result u8))))'
    ),
    "lift-of-another-signature": f'(component {_INSTANCE} (func (param "s" u64) (canon lift (core func $i "f"))))',
    "lift-of-a-string-without-memory": (
        f'(component {_INSTANCE} (func (result string) (canon lift (core func $i "r"))))'
    ),
    "realloc-of-another-type": (
        f'(component {_INSTANCE} (func (param "s" string) (result u32) '
        '(canon lift (core func $i "r") (memory (core memory $i "m")) (realloc (core func $i "f")))))'
    ),
    "post-return-of-another-type": (
        f'(component {_INSTANCE} (func (param "s" u32) '
        '(canon lift (core func $i "f") (post-return (core func $i "r")))))'
    ),
    "instance-argument-that-is-missing": (
        '(component (component $c (import "needed" (func))) (instance (instantiate $c)))'
    ),
    "instance-argument-of-another-type": (
        '(component (component $c (import "needed" (func))) (component $d) '
        '(instance (instantiate $c (with "needed" (component $d)))))'
    ),
    "core-instance-import-that-is-missing": (
        '(component (core module $m (import "a" "b" (func))) (core instance (instantiate $m)))'
    ),
    "export-that-an-instance-does-not-have": (
        '(component (component $c) (instance $i (instantiate $c)) (alias export $i "nothing" (func)))'
    ),
    "core-module-that-does-not-validate": "(component (core module (func (result i32) i64.const 0)))",
    "core-branch-to-nowhere": "(component (core module (func (br 7))))",
}


@pytest.mark.parametrize("text", INVALID.values(), ids=INVALID.keys())
def test_specification_invalid_modules_are_typed_errors(runtime: WasmToolRuntime, text: str) -> None:
    component = wat2wasm(text)
    with pytest.raises(InvalidComponentError) as caught:
        runtime.prepare("invalid", component)
    assert caught.value.message.isprintable()


_HEADER = b"\0asm\x0d\0\x01\0"
MALFORMED = {
    "magic": b"\0ASM\x0d\0\x01\0",
    "unknown-version": b"\0asm\x0e\0\x01\0",
    "unknown-layer": b"\0asm\x0d\0\x02\0",
    "section-that-ends-too-early": _HEADER + b"\x07\x10\x01",
    "section-of-an-unknown-kind": _HEADER + b"\x7f\x01\x00",
    "size-that-never-ends": _HEADER + b"\x07" + b"\xff" * 12,
    "size-beyond-the-file": _HEADER + b"\x04\xff\xff\xff\xff\x0f",
    "name-that-is-not-utf-8": _HEADER + b"\x00\x03\x02\xff\xff",
    "half-a-header": _HEADER[:6],
}


@pytest.mark.parametrize("component", MALFORMED.values(), ids=MALFORMED.keys())
def test_specification_malformed_modules_are_typed_errors(runtime: WasmToolRuntime, component: bytes) -> None:
    with pytest.raises((NotWasmError, InvalidComponentError)):
        runtime.prepare("malformed", component)


_HOST = '(component (import "near:agent/host@0.3.0" (instance {})))'
UNLINKABLE = {
    "interface-that-nobody-has": '(component (import "a:b/c@1.0.0" (instance (export "f" (func)))))',
    "another-major-version": '(component (import "wasi:io/poll@0.3.0" (instance (export "f" (func)))))',
    "function-that-is-missing": _HOST.format('(export "f" (func))'),
    "function-with-another-result": _HOST.format('(export "now-millis" (func (result u32)))'),
    "function-with-another-param": _HOST.format('(export "secret-exists" (func (param "name" u32) (result bool)))'),
    "function-with-another-param-name": _HOST.format(
        '(export "secret-exists" (func (param "other" string) (result bool)))'
    ),
    "function-with-more-params": _HOST.format('(export "now-millis" (func (param "x" u8) (result u64)))'),
    "resource-that-the-host-does-not-have": _HOST.format('(export "r" (type (sub resource)))'),
    "function-at-the-top": '(component (import "f" (func)))',
    "module-at-the-top": '(component (import "m" (core module)))',
    "resource-at-the-top": '(component (import "r" (type (sub resource))))',
    "resource-asked-for-as-a-number": (
        '(component (import "wasi:cli/stdout@0.2.0" (instance (export "get-stdout" (func (result u32))))))'
    ),
}


@pytest.mark.parametrize("text", UNLINKABLE.values(), ids=UNLINKABLE.keys())
def test_specification_link_errors_are_typed_errors(runtime: WasmToolRuntime, text: str) -> None:
    component = wat2wasm(text)
    with pytest.raises(UnknownImportError):
        runtime.prepare("unlinkable", component)


OFF = {
    "shared-memory": "(memory 1 1 shared)",
    "atomics": "(memory 1) (func (drop (i32.atomic.load (i32.const 0))))",
    "memory64": "(memory i64 1)",
    "garbage-collected-structs": "(type (struct (field i32)))",
    "function-references": "(type $f (func)) (func (param (ref $f)) (call_ref $f (local.get 0)))",
    "exceptions": "(tag $t) (func (throw $t))",
    "wide-arithmetic": "(func (result i64 i64) (i64.mul_wide_u (i64.const 1) (i64.const 2)))",
    "custom-page-sizes": "(memory 1 (pagesize 1))",
}


@pytest.mark.parametrize("module", OFF.values(), ids=OFF.keys())
def test_disabled_features_are_rejected(runtime: WasmToolRuntime, module: str) -> None:
    component = wat2wasm(f"(component (core module {module}))")
    with pytest.raises(InvalidComponentError):
        runtime.prepare("off", component)


ASYNC = {
    "async-lift": f'(component {_INSTANCE} (func async (canon lift (core func $i "f") async)))',
    "stream-type": "(component (type (stream u8)))",
    "future-type": "(component (type (future u8)))",
    "task-return": "(component (core func (canon task.return)))",
    "error-context": "(component (type error-context))",
}


@pytest.mark.parametrize("text", ASYNC.values(), ids=ASYNC.keys())
def test_async_components_are_refused(runtime: WasmToolRuntime, text: str) -> None:
    component = wat2wasm(text)
    with pytest.raises(ComponentError):
        runtime.prepare("async", component)


STARTS = {
    "trap": Body(start="unreachable"),
    "data-out-of-bounds": Body(functions='(data (i32.const -1) "x")'),
    "elements-out-of-bounds": Body(functions="(table 1 funcref) (func $f) (elem (i32.const 5) $f)"),
}


@pytest.mark.parametrize("body", STARTS.values(), ids=STARTS.keys())
def test_a_failure_before_any_call_is_an_instantiation_error(runtime: WasmToolRuntime, body: Body) -> None:
    with pytest.raises(InstantiationError):
        runtime.prepare("start", wat2wasm(attacks.tool(body)), limits=attacks.ONLY_THE_CLOCK)
