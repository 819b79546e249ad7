"""Attacks in the component itself: refused, or made ready at a bounded price, before any call."""

from __future__ import annotations

from collections.abc import Callable

from wasmrt.authoring.testing.attacks import _expanding
from wasmrt.authoring.testing.attacks._attack import Attack
from wasmrt.authoring.testing.attacks._build import Body, tool
from wasmrt.core.errors import (
    ComponentTooLargeError,
    CoreModuleError,
    InstantiationError,
    InvalidComponentError,
    NotWasmError,
    UnknownImportError,
    UnknownWorldError,
    WasmrtError,
)
from wasmrt.core.limits import COMPONENT_MAX_BYTES
from wasmrt.sandbox.component import COMPONENT, HEADER, encode_custom_section, encode_section
from wasmrt.sandbox.guest.engine import wat2wasm


def _text(text: str) -> Callable[[], bytes]:
    return lambda: wat2wasm(text)


def _with_section(name: str, size: int) -> Callable[[], bytes]:
    return lambda: wat2wasm(tool(Body())) + encode_custom_section(name, bytes(size))


def _br_table() -> Body:
    # Twenty thousand targets in each of fifty jump tables.
    targets = "0 " * 20_000
    return Body(functions=f"(func (block (br_table {targets} 0 (i32.const 0))))" * 50)


def _nested(depth: int) -> bytes:
    # As bytes: the text's own parser stops at a hundred.
    component = HEADER
    for _ in range(depth):
        component = HEADER + encode_section(COMPONENT, component)
    return component


def _deep_type(depth: int) -> str:
    return f"""(component (import "deep" (instance (export "f"
      (func (param "x" {"(list " * depth} u8 {")" * depth}))))))"""


def _wide_type(count: int) -> str:
    fields = "".join(f'(field "f{n}" string)' for n in range(count))
    return f"""(component (type $t (record {fields})) (import "t" (type $u (eq $t)))
      (import "wide" (instance (export "f" (func (result bool))))))"""


def _imports(count: int) -> str:
    return "(component " + "".join(f'(import "test:n/i{n}" (instance))' for n in range(count)) + ")"


def _resources(count: int) -> str:
    members = "".join(f'(export "r{n}" (type (sub resource)))' for n in range(count))
    return f'(component (import "test:many/resources" (instance {members})))'


def _wrong_host(function: str) -> str:
    return f'(component (import "near:agent/host@0.3.0" (instance (export {function}))))'


_COMPOSED = """(component
  (component $inner
    (core module $m (memory (export "m") 1)
      (func (export "r") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
      (func (export "f") (param i32 i32) (result i32) (i32.const 0)))
    (core instance $i (instantiate $m))
    (func (export "f") (param "s" string) (result (list string))
      (canon lift (core func $i "f") (memory (core memory $i "m")) (realloc (core func $i "r")))))
  (component $outer
    (import "f" (func $f (param "s" string) (result (list string))))
    (core module $libc (memory (export "m") 1)
      (func (export "r") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
    (core instance $libc (instantiate $libc))
    (core func $g (canon lower (func $f) (memory (core memory $libc "m")) (realloc (core func $libc "r"))))
    (core module $m (import "h" "f" (func $f (param i32 i32 i32))) (func (export "g")
      (call $f (i32.const 0) (i32.const 10) (i32.const 64))))
    (core instance $i (instantiate $m (with "h" (instance (export "f" (func $g))))))
    (func (export "g") (canon lift (core func $i "g"))))
  (instance $inner (instantiate $inner))
  (instance $outer (instantiate $outer (with "f" (func $inner "f"))))
  (export "test:composed/tool" (instance $outer)))"""


def _component(name: str, about: str, body: Body | Callable[[], bytes], *expects: type[WasmrtError]) -> Attack:
    return Attack(name=name, about=about, body=body, expects=expects)


COMPONENTS = (
    _component("not-wasm", "is a shell script", lambda: b"#!/bin/sh\nexit 1\n", NotWasmError),
    _component("empty-file", "is empty", lambda: b"", NotWasmError),
    _component("truncated", "ends in the middle", lambda: wat2wasm(tool(Body()))[:-100], InvalidComponentError),
    _component("core-module", "is a core module", _text("(module)"), CoreModuleError),
    _component(
        "too-large", "is larger than any component may be",
        lambda: wat2wasm(tool(Body())) + bytes(COMPONENT_MAX_BYTES), ComponentTooLargeError,
    ),
    _component("no-exports", "exports nothing", _text("(component)"), UnknownWorldError),
    _component(
        "unknown-import", "imports an interface that nobody has",
        _text('(component (import "evil:door/open@1.0.0" (instance (export "f" (func)))))'), UnknownImportError,
    ),
    _component(
        "unknown-function", "imports a function that the host's interface does not have",
        _text(_wrong_host('"run-shell" (func (param "command" string))')), UnknownImportError,
    ),
    _component(
        "wrongly-typed-import", "imports a host function with other types than the host's",
        _text(_wrong_host('"secret-exists" (func (param "name" string) (result string))')), UnknownImportError,
    ),
    _component(
        "wrongly-typed-wasi", "imports a WASI function with other types than WASI's",
        _text('(component (import "wasi:random/random@0.2.0" (instance (export "get-random-bytes" '
              "(func (param \"len\" string) (result u64))))))"), UnknownImportError,
    ),
    _component(
        "import-of-a-module", "imports a core module",
        _text('(component (import "m" (core module)))'), UnknownImportError,
    ),
    _component(
        "wrongly-typed-export", "exports the tool interface with other types",
        _text("""(component (component $s (type $u u8) (export "unused" (type $u))) (instance $t (instantiate $s))
          (export "near:agent/tool@0.3.0" (instance $t)))"""),
        InvalidComponentError, UnknownWorldError,
    ),
    _component("nested-components", "nests components ten thousand deep", lambda: _nested(10_000),
               ComponentTooLargeError),
    _component("doubling-instances", "has two instances of what has two instances, forty times over",
               lambda: _expanding.doubling(40), ComponentTooLargeError),
    _component("locals-in-loops", "keeps four thousand locals through four thousand loops",
               lambda: _expanding.locals_in_loops(4_000), ComponentTooLargeError),
    _component("locals-in-branches", "sets each of four thousand locals in a branch of its own",
               lambda: _expanding.locals_in_branches(4_000), ComponentTooLargeError),
    _component("nested-loops", "nests a hundred thousand loops",
               lambda: _expanding.nested_loops(100_000), ComponentTooLargeError),
    _component("wide-calls", "passes a thousand values through a thousand calls",
               lambda: _expanding.wide_calls(1_000, 1_000), ComponentTooLargeError),
    _component("many-calls", "keeps the answers of half a million calls in one function",
               _expanding.many_calls, ComponentTooLargeError),
    _component("empty-sections", "is twenty million empty sections",
               lambda: _expanding.empty_sections(20_000_000), ComponentTooLargeError),
    _component("many-resources", "exports ten thousand resources", _text(_resources(10_000)),
               InvalidComponentError, UnknownImportError, UnknownWorldError),
    _component(
        "composed",
        "joins two components, whose strings the engine copies between two memories",
        _text(_COMPOSED),
    ),
    _component("deep-type", "imports a list of lists of lists, ninety deep", _text(_deep_type(90)),
               InvalidComponentError),
    _component("many-imports", "imports ten thousand interfaces", _text(_imports(10_000)), UnknownWorldError,
               UnknownImportError, InvalidComponentError),
    _component(
        "long-name", "exports a function with a name of 200,000 characters",
        _text(f'(component (import "{"a" * 200_000}" (instance)))'), InvalidComponentError, UnknownWorldError,
    ),
    _component("custom-section", "carries 20 MB in a section that means nothing", _with_section("x", 20_000_000)),
    _component(
        "custom-section-name", "carries a section with a name of 90,000 characters",
        _with_section("n" * 90_000, 10),
    ),
    _component(
        "many-functions", "has twenty thousand functions", Body(functions="(func)" * 20_000),
    ),
    _component("jump-tables", "has fifty jump tables of twenty thousand targets", _br_table()),
    _component(
        "wide-record", "has a record type of twenty thousand fields", _text(_wide_type(20_000)),
        InvalidComponentError, UnknownImportError, UnknownWorldError,
    ),
    _component("trap-in-start", "traps before any call", Body(start="unreachable"), InstantiationError),
)  # fmt: skip
