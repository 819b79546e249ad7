import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasmrt.sandbox.component import ComponentType, FuncType, InterfaceType, Primitive, ResourceRef
from wasmrt.sandbox.schema.wit import exported_functions

is_tool_name = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch
PLAIN = FuncType((("a", Primitive("u8")),), Primitive("string"))


def component(*exports, functions=()):
    interfaces = {}
    for interface, name in exports:
        interfaces.setdefault(interface, []).append((name, PLAIN))
    return ComponentType(
        (), (), (),
        tuple(InterfaceType(name, tuple(functions), ()) for name, functions in interfaces.items()),
        tuple((name, PLAIN) for name in functions), (),
    )  # fmt: skip


def tools(*exports, functions=()):
    return {(f.interface, f.function): f.tool for f in exported_functions(component(*exports, functions=functions))}


def test_a_tool_is_named_by_interface_and_function():
    found = tools(("docs:adder/add@0.1.0", "add-two"), ("plain", "run"), functions=["main"])
    assert found == {
        ("", "main"): "main",
        ("docs:adder/add@0.1.0", "add-two"): "add-add-two",
        ("plain", "run"): "plain-run",
    }


def test_clashing_interface_names_get_their_package():
    assert list(tools(("a:one/api", "get"), ("a:two/api", "get")).values()) == ["one-api-get", "two-api-get"]
    assert list(tools(("a:p/api", "get"), ("b:p/api", "get")).values()) == ["a-p-api-get", "b-p-api-get"]


def test_clashing_versions_of_an_interface_get_their_version():
    found = tools(("a:p/api@1.0.0", "get"), ("a:p/api@2.0.0", "get"))
    assert list(found.values()) == ["a-p-api-1-0-0-get", "a-p-api-2-0-0-get"]


def test_long_names_are_truncated_and_get_a_digest():
    found = list(tools(("a:p/api", "x" * 80), ("a:p/api", "x" * 80 + "y")).values())
    assert len(set(found)) == 2
    for name in found:
        assert re.fullmatch(r"api-x{51}-[0-9a-f]{8}", name)


def test_a_static_function_of_a_resource_has_a_plain_name():
    [name] = tools(("a:p/api", "[static]clock.now")).values()
    assert name == "api-static-clock-now"


def test_a_function_that_json_cannot_call_has_a_problem():
    kind = FuncType((("self", ResourceRef("a:p/api#door", False)),), None)
    interface = InterfaceType("a:p/api", (("[method]door.open", kind), ("ring", PLAIN)), ("door",))
    found = exported_functions(ComponentType((), (), (), (interface,), (), ()))
    assert [f.problem for f in found] == [
        "self contains the resource handle borrow<door>, which JSON cannot represent",
        None,
    ]
    assert found[1].signature == "a:p/api#ring: func(a: u8) -> string"


words = st.from_regex(r"[a-zA-Z]{1,3}(-[a-zA-Z]{1,2})?", fullmatch=True)
paths = st.tuples(words, words, words, st.sampled_from(["", "@1.0.0", "@1.0.0-rc"])).map(
    "{0[0]}:{0[1]}/{0[2]}{0[3]}".format
)


@pytest.mark.ci("slow")
@given(st.lists(st.tuples(paths | words, words), unique=True, max_size=12), st.lists(words, unique=True, max_size=4))
def test_every_name_is_unique_and_valid_for_every_provider(exports, functions):
    found = tools(*exports, functions=functions)
    assert len({name.lower().replace("_", "-") for name in found.values()}) == len(found)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in found.values())
    assert found == tools(*reversed(exports), functions=functions[::-1])


@pytest.mark.parametrize("count", [128])
def test_many_clashing_names_are_resolved_quickly(count):
    exports = [(f"{'n' * (i + 1)}:p/api", "get") for i in range(count)]
    assert len(set(tools(*exports).values())) == count


@pytest.mark.parametrize(
    ("interface", "params", "toolchain"),
    [
        ("", ("shim", "script", "entry-path", "disable-gc"), "componentize-qjs"),
        ("exports", ("app-name", "symbols", "stub-wasi"), "componentize-py"),
    ],
)
def test_build_functions_of_toolchains_are_not_tools(interface, params, toolchain):
    def described(kind):
        functions = (("init", kind),)
        exports = (InterfaceType(interface, functions, ()),) if interface else ()
        [found] = exported_functions(ComponentType((), (), (), exports, () if interface else functions, ()))
        return found.problem

    of = tuple((name, Primitive("string")) for name in params)
    assert toolchain in described(FuncType(of, None))
    assert described(FuncType(of[:-1], None)) is None
