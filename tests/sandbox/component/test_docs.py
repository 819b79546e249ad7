import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasmrt.sandbox.component import ComponentType, FuncType, InterfaceType, Primitive, doc_comments
from wasmrt.sandbox.guest.engine import wat2wasm
from wasmrt.sandbox.schema.wit import exported_functions

EMPTY = wat2wasm("(component)")
DOCS = {
    "docs": "the package",
    "worlds": {
        "root": {
            "docs": "the world",
            "funcs": {"run": {"docs": "Runs it.\nAt once."}, "bare": {}},
            "func_exports": {"stop": {"docs": "Stops it."}},
            "interfaces": {"inline": {"funcs": {"go": {"docs": "Goes."}}}},
        }
    },
    "interfaces": {"api": {"docs": "an interface", "funcs": {"get": "Gets it, as version 0 wrote it."}}},
}


def leb128(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def section(content, name=b"package-docs"):
    body = leb128(len(name)) + name + content
    return b"\0" + leb128(len(body)) + body


def with_docs(docs=DOCS, version=b"\1"):
    return EMPTY + section(b"x" * 300, b"other") + section(version + json.dumps(docs).encode())


def test_doc_comments_are_read_from_sections_of_wit_tools():
    assert doc_comments(with_docs()) == {
        ("", "run"): "Runs it. At once.",
        ("", "stop"): "Stops it.",
        ("inline", "go"): "Goes.",
        ("api", "get"): "Gets it, as version 0 wrote it.",
    }
    assert doc_comments(with_docs(version=b"\0")) == doc_comments(with_docs())
    assert doc_comments(EMPTY) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\2{}",
        b"\1{",
        b"\1[]",
        b"\1" + b"[" * 60_000,
        b'\1{"worlds": 1, "interfaces": {"a": {"funcs": [1]}}}',
        b"\1\xff",
    ],
)
def test_unreadable_docs_sections_are_ignored(content):
    assert doc_comments(EMPTY + section(content)) == {}


def test_docs_over_the_size_limit_are_ignored():
    assert doc_comments(with_docs({"interfaces": {"api": {"funcs": {"f": "x" * 100_000}}}})) == {}


def test_an_exported_function_is_described_by_its_doc_comment_or_its_signature():
    kind = FuncType((("n", Primitive("u8")),), None)
    api = InterfaceType("a:b/api@1.0.0", (("get", kind), ("put", kind)), ())
    component = ComponentType((), (), (), (api,), (("run", kind),), ())
    found = exported_functions(component, docs=doc_comments(with_docs()))
    assert [f.description for f in found] == [
        "Runs it. At once.",
        "Gets it, as version 0 wrote it.",
        "a:b/api@1.0.0#put: func(n: u8)",
    ]


@given(st.binary(max_size=60), st.integers(0, 400))
def test_arbitrary_bytes_never_raise_while_reading_docs(tail, cut):
    doc_comments(EMPTY + tail)
    doc_comments(with_docs()[:cut])
