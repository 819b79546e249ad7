"""Pass JSON to a real guest and back. The guest returns values of any type unchanged."""

import json

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.sandbox.component import (
    EnumType,
    FlagsType,
    FuncType,
    ListType,
    OptionType,
    Primitive,
    RecordType,
    ResultType,
    TupleType,
    VariantType,
)
from wasmrt.sandbox.guest.compiler import Compiler
from wasmrt.sandbox.guest.engine import Export, Linker, Sandbox, StoreLimits, wat2wasm
from wasmrt.sandbox.guest.settings import EngineConfig
from wasmrt.sandbox.schema import schema_problem
from wasmrt.sandbox.schema.wit import explain_unsupported, exported_functions, function_schema, to_json, to_values

from .strategies import same, values, wit_types

LIMITS = StoreLimits(memory_bytes=1 << 20, memories=1, table_elements=100, tables=1, instances=10, fuel=10_000_000)
# More than 16 flat values are passed through memory, and so is the result: the guest returns the same pointer.
PADDING = 17


class Call:
    def enter_host(self):
        raise AssertionError("the guest imports nothing")

    def leave_host(self):
        raise AssertionError("the guest imports nothing")

    def fail(self, error):
        raise error

    def charge_values(self, count):
        pass

    def charge_text(self, size):
        pass

    def interruption(self):
        return None


def define(kind, lines):
    """Add the definitions of a type and return its reference."""
    match kind:
        case Primitive(name):
            return name
        case ListType(element):
            body = f"(list {define(element, lines)})"
        case OptionType(inner):
            body = f"(option {define(inner, lines)})"
        case TupleType(elements):
            body = f"(tuple {' '.join(define(element, lines) for element in elements)})"
        case ResultType(ok, err):
            left = "" if ok is None else define(ok, lines)
            right = "" if err is None else f"(error {define(err, lines)})"
            body = f"(result {left} {right})"
        case RecordType(fields):
            body = " ".join(f'(field "{name}" {define(inner, lines)})' for name, inner in fields)
            body = f"(record {body})"
        case VariantType(cases):
            body = " ".join(f'(case "{name}" {"" if i is None else define(i, lines)})' for name, i in cases)
            body = f"(variant {body})"
        case EnumType(names) | FlagsType(names):
            word = "enum" if isinstance(kind, EnumType) else "flags"
            body = f"({word} {' '.join(json.dumps(name) for name in names)})"
    number = len(lines)
    lines.append(f"(type $t{number} {body})")
    if not isinstance(kind, (RecordType, VariantType, EnumType, FlagsType)):
        return f"$t{number}"
    lines[-1] += f' (export $e{number} "t{number}" (type $t{number}))'
    return f"$e{number}"


def guest(kind):
    lines = []
    padded = f"(tuple {define(kind, lines)} {'u8 ' * PADDING})"
    return f"""(component
      (core module $m
        (memory (export "memory") 4)
        (global $next (mut i32) (i32.const 1024))
        (func (export "realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
          (local $at i32)
          (local.set $at (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
          (global.set $next (i32.add (local.get $at) (local.get $new)))
          (local.get $at))
        (func (export "echo") (param i32) (result i32) (local.get 0)))
      (core instance $i (instantiate $m))
      {" ".join(lines)}
      (type $padded {padded})
      (func (export "echo") (param "x" $padded) (result $padded)
        (canon lift (core func $i "echo") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"""


@pytest.fixture(scope="module")
def compiler():
    compiler = Compiler(EngineConfig(), keep=False, disk=None)
    yield compiler
    compiler.close()


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_json_round_trips_through_a_real_guest(compiler, data):
    kind = data.draw(wit_types)
    padded = TupleType((kind, *[Primitive("u8")] * PADDING))
    assume(explain_unsupported(FuncType((("x", padded),), padded)) is None)
    value = (data.draw(values(kind)), *range(PADDING))
    component = compiler.compile(wat2wasm(guest(kind)), "echo")
    [echo] = exported_functions(component.type)
    assert (echo.tool, echo.interface, echo.problem) == ("echo", "", None)
    assert dict(echo.type.params) == {"x": padded}
    assert schema_problem(function_schema(echo.type)) is None
    linker = Linker(component, [])
    export = Export(linker, ("echo",), echo.type)

    sent = json.dumps({"x": to_json(padded, value)})
    with Sandbox(linker, LIMITS, Call()) as sandbox:
        sandbox.instantiate()
        answer = sandbox.call(export, *to_values(echo.type, json.loads(sent)))
    assert same(answer, value)
    assert json.dumps({"x": to_json(echo.type.result, answer)}) == sent
