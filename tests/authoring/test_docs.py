"""The doc comments of a tool's WIT are what its functions are described by, whatever toolchain built it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wasmrt import WasmToolRuntime
from wasmrt.authoring import Project, build, judge, with_docs
from wasmrt.component import doc_comments
from wasmrt.guest.engine import wat2wasm

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
  // no doc comment
  bare: func();
  /** Says
   *  hello. */
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


def test_the_docs_of_what_is_exported_are_carried_and_no_others() -> None:
    documented = with_docs(wat2wasm("(component)"), WIT, EXPORTS)
    assert doc_comments(documented) == {
        ("", "run"): "Runs it.",
        ("inside", "stand"): "Stands inside.",
        ("made:here/api", "add"): "Adds two numbers, whatever they are.",
        ("made:here/api", "type"): "Says hello.",
    }


def test_docs_are_not_carried_twice() -> None:
    once = with_docs(wat2wasm("(component)"), WIT, EXPORTS)
    assert with_docs(once, WIT, EXPORTS) == once
    assert with_docs(once, WIT.replace("Runs it.", "Runs."), EXPORTS) == once


def test_a_component_whose_wit_has_no_docs_stays_as_it_is() -> None:
    component = wat2wasm("(component)")
    assert with_docs(component, "package a:b; world tool { export run: func(); }", ("run",)) == component
    assert with_docs(component, WIT, ()) == component


@given(st.text(max_size=80) | st.lists(st.sampled_from(WIT.split()), max_size=80).map(" ".join))
def test_any_text_leaves_a_component_that_is_one(wit: str) -> None:
    component = wat2wasm("(component)")
    documented = with_docs(component, wit, EXPORTS)
    assert documented.startswith(component)
    assert {interface for interface, _ in doc_comments(documented)} <= {"", "inside", "made:here/api"}


def test_a_functions_docs_are_its_description_as_a_tool() -> None:
    component = with_docs(wat2wasm(f'(component {CORE} (export "run" (func $f)))'), WIT, ("run",))
    with WasmToolRuntime() as runtime:
        assert runtime.prepare("made", component).description == "Runs it."


def test_build_carries_the_docs_of_a_world_of_ones_own(c_project: Project) -> None:
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
    built = build(c_project, agree=lambda _question: False)
    assert set(built.verdict.tools) == {"api-add", "api-twice", "halve"}
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


def test_a_function_that_json_cannot_call_is_a_warning_for_its_author() -> None:
    text = f"""(component
      (type $door' (resource (rep i32))) (export $door "door" (type $door'))
      (core func $new (canon resource.new $door'))
      (core module $opener (import "" "new" (func $new (param i32) (result i32)))
        (func (export "open") (result i32) (call $new (i32.const 7))))
      (core instance $o (instantiate $opener (with "" (instance (export "new" (func $new))))))
      (func (export "open") (result (own $door)) (canon lift (core func $o "open")))
      {CORE} (export "run" (func $f)))"""
    with WasmToolRuntime() as runtime:
        verdict = judge(runtime, "doors", wat2wasm(text), None)
    assert verdict.tools == ("run",)
    (warning,) = verdict.warnings
    assert warning.startswith("open is no tool: ")
    assert "resource handle" in warning
