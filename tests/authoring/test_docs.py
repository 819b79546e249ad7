"""Tests that the doc comments of a WIT become descriptions of tools, with every toolchain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from wasmrt import WasmToolRuntime
from wasmrt.authoring.project import Project, build, check_build, find_wasm_tools, with_docs
from wasmrt.sandbox.component import doc_comments
from wasmrt.sandbox.guest.engine import wat2wasm

WIT = """
/// The package, which is no function.
package made:here@1.0.0;

/// An interface.
interface api {
  /// A shape.
  record pair { /// The left one.
    left: s64, right: s64 }
  /// Adds two numbers,
  /// whatever they are.
  @since(version = 1.0.0)
  add: func(pair: pair) -> s64;
  bare: func();
  /** Says hello. */
  %type: async func();
  /// Of a resource.
  resource door { /// Opens it.
    open: func(); }
}
interface other { /// Not exported.
  add: func(); }
world tool {
  /// Not a function of ours.
  import fetch: func(url: string) -> string;
  /// Runs it.
  export run: func();
  /// Not in this component.
  export gone: func();
  export inside: interface { /// Stands inside.
    stand: func(); }
  export api;
}
"""
EXPORTS = ("run", "inside", "made:here/api@1.0.0")
CORE = """(core module $m (func (export "f"))) (core instance $i (instantiate $m))
  (func $f (canon lift (core func $i "f")))"""


@pytest.fixture
def described(tmp_path: Path) -> Callable[..., bytes]:
    """Return a component with the docs of a WIT text and of a package that it uses."""

    def describe(component: bytes, wit: str = WIT, exports: Iterable[str] = EXPORTS, *, uses: str = "") -> bytes:
        (tmp_path / "tool.wit").write_text(wit)
        if uses:
            (tmp_path / "deps").mkdir()
            (tmp_path / "deps" / "used.wit").write_text(uses)
        return with_docs(component, find_wasm_tools().resolve_wit(tmp_path), exports)

    return describe


def test_only_docs_of_exports_are_added(described: Callable[..., bytes]) -> None:
    documented = described(wat2wasm("(component)"))
    assert doc_comments(documented) == {
        ("", "run"): "Runs it.",
        ("inside", "stand"): "Stands inside.",
        ("made:here/api", "add"): "Adds two numbers, whatever they are.",
        ("made:here/api", "type"): "Says hello.",
    }


def test_docs_of_exported_package_interfaces_are_added(
    described: Callable[..., bytes],
) -> None:
    used = """package lent:out@2.0.0;
      interface face { /// Smiles.
        smile: func(); }
      world other { /// Another world's.
        export run: func(); }"""
    wit = WIT.replace("  export api;", "  export api;\n  export lent:out/face@2.0.0;")
    docs = doc_comments(described(wat2wasm("(component)"), wit, (*EXPORTS, "lent:out/face@2.0.0"), uses=used))
    assert docs["lent:out/face", "smile"] == "Smiles."
    assert docs["", "run"] == "Runs it."
    assert docs["made:here/api", "type"] == "Says hello."


def test_component_without_docs_is_unchanged(described: Callable[..., bytes]) -> None:
    component = wat2wasm("(component)")
    assert described(component, "package a:b; world tool { export run: func(); }", ("run",)) == component
    assert described(component, WIT, ()) == component


def test_oversized_docs_are_left_out(described: Callable[..., bytes]) -> None:
    component = wat2wasm("(component)")
    assert described(component, WIT.replace("Runs it.", "Runs it. " * 100_000), ("run",)) == component


def test_doc_comment_becomes_the_tool_description(described: Callable[..., bytes]) -> None:
    component = described(wat2wasm(f'(component {CORE} (export "run" (func $f)))'), WIT, ("run",))
    with WasmToolRuntime() as runtime:
        assert runtime.prepare("made", component).description == "Runs it."


@pytest.mark.ci("slow")
def test_build_adds_the_docs_of_a_custom_world(c_project: Project) -> None:
    c_project.wit.write_text(
        """package my:sums@0.2.0;
        interface api {
          /// Adds two numbers of 64 bits; it wraps around.
          add: func(a: s64, b: s64) -> s64;
          twice: func(a: s64) -> s64;
        }
        world tool {
          export api;
          /// Halves a number, downwards.
          export halve: func(a: s64) -> s64;
        }
        """
    )
    (c_project.folder / "tool.c").write_text(
        '#define AS(name) __attribute__((export_name("my:sums/api@0.2.0#" name)))\n'
        'AS("add") long long add(long long a, long long b) { return (long long)((unsigned long long)a + b); }\n'
        'AS("twice") long long twice(long long a) { return add(a, a); }\n'
        '__attribute__((export_name("halve"))) long long halve(long long a) { return a >> 1; }\n'
    )
    c_project.sidecar.unlink()
    built = build(c_project, confirm=lambda _question: False)
    assert set(built.report.tools) == {"api-add", "api-twice", "halve"}
    with WasmToolRuntime() as runtime:
        tool = runtime.prepare("sums", c_project.component.read_bytes())
        described = {spec.name: spec.description for spec in tool.tools}
        assert described == {
            "api-add": "Adds two numbers of 64 bits; it wraps around.",
            "api-twice": "my:sums/api@0.2.0#twice: func(a: s64) -> s64",
            "halve": "Halves a number, downwards.",
        }
        assert tool.tool("api-add").execute({"a": str(2**62), "b": 2**53}).result == str(2**62 + 2**53)
        assert tool.tool("halve").execute({"a": -3}).result == -2


def test_function_without_json_form_is_a_build_warning() -> None:
    text = f"""(component
      (type $door' (resource (rep i32))) (export $door "door" (type $door'))
      (core func $new (canon resource.new $door'))
      (core module $opener (import "" "new" (func $new (param i32) (result i32)))
        (func (export "open") (result i32) (call $new (i32.const 7))))
      (core instance $o (instantiate $opener (with "" (instance (export "new" (func $new))))))
      (func (export "open") (result (own $door)) (canon lift (core func $o "open")))
      {CORE} (export "run" (func $f)))"""
    with WasmToolRuntime() as runtime:
        report = check_build(runtime, "doors", wat2wasm(text), None, imports_wasi=False)
    assert report.tools == ("run",)
    (warning,) = report.warnings
    assert warning.startswith("open is not a tool: ")
    assert "resource handle" in warning
