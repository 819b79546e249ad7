import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wasmrt.component import (
    ComponentType,
    EnumType,
    FuncType,
    InterfaceType,
    ListType,
    Primitive,
    RecordType,
    ResourceRef,
)
from wasmrt.schema import wit_text

from .strategies import labels, wit_types

U32, STRING = Primitive("u32"), Primitive("string")
POLLABLE = ResourceRef("wasi:io/poll#pollable", False)


def component(imports=(), exports=(), functions=(), other=()):
    return ComponentType(tuple(imports), (), tuple(other), tuple(exports), tuple(functions), ())


def test_a_component_reads_as_wit():
    poll = InterfaceType(
        "wasi:io/poll@0.2.6",
        (("[method]pollable.block", FuncType((("self", POLLABLE),), None)),
         ("poll", FuncType((("in", ListType(POLLABLE)),), ListType(U32)))),
        ("pollable",),
    )  # fmt: skip
    clock = InterfaceType(
        "wasi:clocks/monotonic-clock@0.2.6",
        (("subscribe", FuncType((("when", Primitive("u64")),), ResourceRef("wasi:io/poll#pollable", True))),),
        (),
    )
    point = RecordType((("x", U32), ("type", EnumType(("near", "far")))))
    func = FuncType((("point", point), ("others", ListType(point))), point)
    assert wit_text(component([poll, clock], functions=[("move", func)])) == (
        "package root:component;\n"
        "\n"
        "world root {\n"
        "  enum %type {\n"
        "    near,\n"
        "    far,\n"
        "  }\n"
        "  record point {\n"
        "    x: u32,\n"
        "    %type: %type,\n"
        "  }\n"
        "  import wasi:io/poll@0.2.6;\n"
        "  import wasi:clocks/monotonic-clock@0.2.6;\n"
        "  export move: func(point: point, others: list<point>) -> point;\n"
        "}\n"
        "\n"
        "package wasi:io@0.2.6 {\n"
        "  interface poll {\n"
        "    resource pollable {\n"
        "      block: func();\n"
        "    }\n"
        "    poll: func(in: list<borrow<pollable>>) -> list<u32>;\n"
        "  }\n"
        "}\n"
        "\n"
        "package wasi:clocks@0.2.6 {\n"
        "  interface monotonic-clock {\n"
        "    use wasi:io/poll@0.2.6.{pollable};\n"
        "    subscribe: func(when: u64) -> pollable;\n"
        "  }\n"
        "}\n"
    )


def test_methods_are_written_inside_their_resource():
    own, borrow = ResourceRef("a:b/doors#door", True), ResourceRef("a:b/doors#door", False)
    doors = InterfaceType(
        "a:b/doors",
        (
            ("[constructor]door", FuncType((("width", U32),), own)),
            ("[method]door.open", FuncType((("self", borrow), ("wide", Primitive("bool"))), None)),
            ("[static]door.widest", FuncType((), U32)),
            ("count", FuncType((), U32)),
        ),
        ("door",),
    )
    keys = InterfaceType("a:b/keys", (("fit", FuncType((("door", borrow), ("in", U32)), own)),), ())
    text = wit_text(component([doors], [keys, doors]))
    assert text.endswith(
        "package a:b {\n"
        "  interface doors {\n"
        "    resource door {\n"
        "      constructor(width: u32);\n"
        "      open: func(wide: bool);\n"
        "      widest: static func() -> u32;\n"
        "    }\n"
        "    count: func() -> u32;\n"
        "  }\n"
        "  interface keys {\n"
        "    use doors.{door};\n"
        "    fit: func(door: borrow<door>, in: u32) -> door;\n"
        "  }\n"
        "}\n"
    )


def test_an_interface_without_a_package_is_written_in_the_world():
    text = wit_text(component(exports=[InterfaceType("api", (("get", FuncType((), STRING)),), ())]))
    assert "  export api: interface {\n    get: func() -> string;\n  }\n" in text


def test_doc_comments_stand_before_their_functions():
    kind = FuncType((), STRING)
    api = InterfaceType("a:b/api@1.0.0", (("get", kind), ("put", kind)), ())
    inside = InterfaceType("inside", (("get", kind),), ())
    docs = {("a:b/api", "get"): "Gets it.", ("inside", "get"): "Gets another.", ("", "run"): "Runs it."}
    text = wit_text(component(exports=[api, inside], functions=[("run", kind), ("stop", kind)]), docs)
    assert "    /// Gets it.\n    get: func() -> string;\n    put: func() -> string;\n" in text
    assert "    /// Gets another.\n    get: func() -> string;\n" in text
    assert "  /// Runs it.\n  export run: func() -> string;\n  export stop: func() -> string;\n" in text
    assert text.count("///") == 3


def test_what_wit_has_no_word_for_is_a_comment():
    text = wit_text(component(other=["a module\nworld evil {"]))
    assert "// import a module world evil {: a module or component\n" in text


def parses(text, folder):
    pytest.importorskip("componentize_py", reason="componentize-py reads WIT, and is not installed")
    file = folder / "root.wit"
    file.write_text(text)
    command = [
        Path(sys.executable).with_name("componentize-py"),
        "-q",
        "-d",
        file,
        "-w",
        "root",
        "bindings",
        folder / "out",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode == 0 or done.stderr[:1000]


params = st.lists(st.tuples(labels, wit_types), max_size=3, unique_by=lambda pair: pair[0]).map(tuple)
funcs = st.builds(FuncType, params, st.none() | wit_types)
members = st.lists(st.tuples(labels, funcs), max_size=3, unique_by=lambda pair: pair[0]).map(tuple)
interfaces = st.builds(lambda name, functions: InterfaceType(f"my:pkg/{name}@1.0.0", functions, ()), labels, members)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(interfaces, max_size=3, unique_by=lambda i: i.name), members)
def test_a_wit_parser_reads_what_is_written(tmp_path_factory, exports, functions):
    taken = {e.name.split("/")[1].split("@")[0] for e in exports}
    functions = tuple(pair for pair in functions if pair[0] not in taken)
    text = wit_text(component(exports=exports, functions=functions))
    assert parses(text, tmp_path_factory.mktemp("wit")) is True, text
