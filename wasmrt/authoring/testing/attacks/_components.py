"""Attacks with the component itself: it is rejected, or prepared at a bounded cost, before any call."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wasmrt.authoring.testing.attacks._attack import attack
from wasmrt.authoring.testing.attacks._build import Body, tool
from wasmrt.core.errors import (
    ComponentTooLargeError,
    CoreModuleError,
    InstantiationError,
    InvalidComponentError,
    NotWasmError,
    UnknownImportError,
    UnknownWorldError,
)
from wasmrt.core.limits import COMPONENT_MAX_BYTES, MAX_FUNCTION_BRANCHES
from wasmrt.sandbox.component import COMPONENT, CORE_MODULE, HEADER, encode_custom_section, encode_section, encode_u32
from wasmrt.sandbox.guest.engine import wat2wasm


def _parse(text: str) -> Callable[[], bytes]:
    return lambda: wat2wasm(text)


def _with_section(name: str, size: int) -> Callable[[], bytes]:
    return lambda: wat2wasm(tool(Body())) + encode_custom_section(name, bytes(size))


def _write_br_table() -> Body:
    targets = "0 " * 20_000
    return Body(functions=f"(func (block (br_table {targets} 0 (i32.const 0))))" * 50)


def _write_nested(depth: int) -> bytes:
    # Built from bytes, because the text parser allows only a hundred levels.
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


def _import_lines(count: int) -> str:
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


_MODULE = b"\0asm\1\0\0\0"
_I32 = b"\x7f"
_END = b"\x0b"


def doubling(depth: int) -> bytes:
    """Return a component with two instances of a nested component, which again has two instances, and so on."""
    component = HEADER + encode_section(CORE_MODULE, _MODULE) + encode_section(2, _list([b"\0\0\0"]))
    for _ in range(depth):
        component = HEADER + encode_section(COMPONENT, component) + encode_section(5, _list([b"\0\0\0"] * 2))
    return component


def locals_in_loops(count: int) -> bytes:
    """Return a component with one function, which has `count` locals and `count` nested loops."""
    used = b"".join(b"\x20" + encode_u32(number) + b"\x21" + encode_u32(number) for number in range(count))
    return _write_function(b"\x03\x40" * count + used + _END * count, count)


def locals_in_branches(count: int) -> bytes:
    """Return a component with one function, which has `count` locals and sets each in a separate branch."""
    sets = b"".join(b"\x20\0\x04\x40\x41\1\x21" + encode_u32(number) + _END for number in range(count))
    return _write_function(sets + b"".join(b"\x20" + encode_u32(number) + b"\x1a" for number in range(count)), count)


def nested_loops(count: int) -> bytes:
    """Return a component with one function of nested loops."""
    return _write_function(b"\x03\x40" * count + _END * count)


def wide_calls(width: int, count: int) -> bytes:
    """Return a component with one function that calls another function, which takes and returns `width` values."""
    types = [_write_type(0, 0), _write_type(0, width), _write_type(width, width)]
    caller = _write_body(b"\x10\0" + b"\x10\2" * count + b"\0")
    return _write_module(types, [1, 0, 2], [_write_body(b"\0"), caller, _write_body(b"\0")])


def many_calls() -> bytes:
    """Return a component with one function that keeps the results of more calls than any real function makes."""
    count = MAX_FUNCTION_BRANCHES + 1
    caller = _write_body(b"\x10\0" * count + b"\x6a" * (count - 1) + b"\x1a")
    return _write_module([_write_type(0, 0), _write_type(0, 1)], [1, 0], [_write_body(b"\0"), caller])


def empty_sections(count: int) -> bytes:
    """Return a component of custom sections without name or content."""
    return HEADER + b"\0\1\0" * count


def _write_function(code: bytes, locals_count: int = 0) -> bytes:
    return _write_module([_write_type(0, 0)], [0], [_write_body(code, locals_count)])


def _write_module(types: list[bytes], functions: list[int], bodies: list[bytes]) -> bytes:
    module = _MODULE + encode_section(1, _list(types)) + encode_section(3, _list(map(encode_u32, functions)))
    return HEADER + encode_section(CORE_MODULE, module + encode_section(10, _list(bodies)))


def _write_body(code: bytes, locals_count: int = 0) -> bytes:
    declared = _list([encode_u32(locals_count) + _I32] if locals_count else [])
    return encode_u32(len(declared + code + _END)) + declared + code + _END


def _write_type(takes: int, gives: int) -> bytes:
    return b"\x60" + encode_u32(takes) + _I32 * takes + encode_u32(gives) + _I32 * gives


def _list(items: Iterable[bytes]) -> bytes:
    each = list(items)
    return encode_u32(len(each)) + b"".join(each)


COMPONENTS = (
    attack("not-wasm", "is a shell script", lambda: b"#!/bin/sh\nexit 1\n", NotWasmError),
    attack("empty-file", "is empty", lambda: b"", NotWasmError),
    attack("truncated", "ends in the middle", lambda: wat2wasm(tool(Body()))[:-100], InvalidComponentError),
    attack("core-module", "is a core module", _parse("(module)"), CoreModuleError),
    attack("too-large", "is larger than any component may be",
           lambda: wat2wasm(tool(Body())) + bytes(COMPONENT_MAX_BYTES), ComponentTooLargeError),
    attack("no-exports", "exports nothing", _parse("(component)"), UnknownWorldError),
    attack("unknown-import", "imports an unknown interface",
           _parse('(component (import "evil:door/open@1.0.0" (instance (export "f" (func)))))'), UnknownImportError),
    attack("unknown-function", "imports a function that the host's interface does not have",
           _parse(_wrong_host('"run-shell" (func (param "command" string))')), UnknownImportError),
    attack("wrongly-typed-import", "imports a host function with other types than the host's",
           _parse(_wrong_host('"secret-exists" (func (param "name" string) (result string))')), UnknownImportError),
    attack("wrongly-typed-wasi", "imports a WASI function with other types than WASI's",
           _parse('(component (import "wasi:random/random@0.2.0" (instance (export "get-random-bytes" '
              "(func (param \"len\" string) (result u64))))))"), UnknownImportError),
    attack("import-of-a-module", "imports a core module", _parse('(component (import "m" (core module)))'),
           UnknownImportError),
    attack("wrongly-typed-export", "exports the tool interface with other types",
           _parse("""(component (component $s (type $u u8) (export "unused" (type $u))) (instance $t (instantiate $s))
          (export "near:agent/tool@0.3.0" (instance $t)))"""), InvalidComponentError, UnknownWorldError),
    attack("nested-components", "nests components ten thousand deep", lambda: _write_nested(10_000),
           ComponentTooLargeError),
    attack("doubling-instances", "nests components of two instances each forty levels deep", lambda: doubling(40),
           ComponentTooLargeError),
    attack("locals-in-loops", "keeps four thousand locals through four thousand loops", lambda: locals_in_loops(4_000),
           ComponentTooLargeError),
    attack("locals-in-branches", "sets each of four thousand locals in a separate branch",
           lambda: locals_in_branches(4_000), ComponentTooLargeError),
    attack("nested-loops", "nests a hundred thousand loops", lambda: nested_loops(100_000), ComponentTooLargeError),
    attack("wide-calls", "passes a thousand values through a thousand calls", lambda: wide_calls(1_000, 1_000),
           ComponentTooLargeError),
    attack("many-calls", "keeps the results of half a million calls in one function", many_calls,
           ComponentTooLargeError),
    attack("empty-sections", "is twenty million empty sections", lambda: empty_sections(20_000_000),
           ComponentTooLargeError),
    attack("many-resources", "exports ten thousand resources", _parse(_resources(10_000)), InvalidComponentError,
           UnknownImportError, UnknownWorldError),
    attack("composed", "joins two components, whose strings the engine copies between two memories", _parse(_COMPOSED)),
    attack("deep-type", "imports a list of lists of lists, ninety deep", _parse(_deep_type(90)), InvalidComponentError),
    attack("many-imports", "imports ten thousand interfaces", _parse(_import_lines(10_000)), UnknownWorldError,
           UnknownImportError, InvalidComponentError),
    attack("long-name", "exports a function with a name of 200,000 characters",
           _parse(f'(component (import "{"a" * 200_000}" (instance)))'), InvalidComponentError, UnknownWorldError),
    attack("custom-section", "carries 20 MB in a section that means nothing", _with_section("x", 20_000_000)),
    attack("custom-section-name", "carries a section with a name of 90,000 characters",
           _with_section("n" * 90_000, 10)),
    attack("many-functions", "has twenty thousand functions", Body(functions="(func)" * 20_000)),
    attack("jump-tables", "has fifty jump tables of twenty thousand targets", _write_br_table()),
    attack("wide-record", "has a record type of twenty thousand fields", _parse(_wide_type(20_000)),
           InvalidComponentError, UnknownImportError, UnknownWorldError),
    attack("trap-in-start", "traps before any call", Body(start="unreachable"), InstantiationError),
)  # fmt: skip
