"""Imports and exports are read from the bytes: every form of the binary format, and nothing beyond the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core.errors import InvalidComponentError
from wasmrt.core.limits import MAX_COMPONENT_NAMES
from wasmrt.sandbox.component import SurfaceItem, read_surface
from wasmrt.sandbox.guest.engine import wat2wasm

PREAMBLE = b"\0asm\x0d\0\x01\0"


def section(kind: int, *items: bytes) -> bytes:
    body = leb(len(items)) + b"".join(items)
    return PREAMBLE + bytes([kind]) + leb(len(body)) + body


def leb(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + leb(number >> 7)


def named(name: bytes, rest: bytes) -> bytes:
    return b"\0" + leb(len(name)) + name + rest


def test_every_kind_of_import_is_read_in_order() -> None:
    text = """(component
      (type $u u8) (type $f (func)) (type $i (instance)) (type $c (component))
      (import "a-func" (func (type $f))) (import "an-instance" (instance (type $i)))
      (import "a-resource" (type (sub resource))) (import "an-alias" (type (eq $u)))
      (import "a-component" (component (type $c))) (import "a-module" (core module (export "x" (func)))))"""
    assert read_surface(wat2wasm(text)).imports == (
        SurfaceItem("a-func", "func"),
        SurfaceItem("an-instance", "instance"),
        SurfaceItem("a-resource", "type"),
        SurfaceItem("an-alias", "type"),
        SurfaceItem("a-component", "component"),
        SurfaceItem("a-module", "module"),
    )


def test_every_kind_of_export_is_read_with_and_without_a_type() -> None:
    text = """(component
      (import "f" (func $f)) (instance $e) (core module $m) (component $c) (type $u u8)
      (export "one" (func $f)) (export "two" (func $f) (func)) (export "three" (instance $e))
      (export "four" (core module $m)) (export "five" (component $c)) (export "six" (type $u)))"""
    surface = read_surface(wat2wasm(text))
    assert [item.kind for item in surface.exports] == ["func", "func", "instance", "module", "component", "type"]
    assert [item.name for item in surface.exports] == ["one", "two", "three", "four", "five", "six"]


@pytest.mark.parametrize(
    "bound",
    [b"\x00\x05", b"\x01\x7f", b"\x01\x64", b"\x01\x80\x01"],
    ids=["equal to a value", "bool", "error-context", "a type by its index"],
)
def test_all_forms_of_values_are_read(bound: bytes) -> None:
    data = section(10, named(b"v", b"\x02" + bound), named(b"f", b"\x01\x00"))
    assert [item.name for item in read_surface(data).imports] == ["v", "f"]


def test_imports_of_several_sections_are_joined() -> None:
    more = section(10, named(b"b", b"\x05\x01"))[8:]
    data = section(10, b"\x01" + named(b"a", b"\x05\x00")[1:]) + more  # both spellings of a plain name
    assert [item.name for item in read_surface(data).imports] == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (section(10, b"\x02\x01a\x00\x05\x00"), "name of an unknown form"),
        (section(10, named(b"a", b"\x06\x00")), "unknown kind"),
        (section(11, named(b"a", b"\x00\x00\x00\x00")), "unknown kind"),
        (section(10, named(b"a", b"\x03\x02")), "unknown type"),
        (section(11, named(b"a", b"\x01\x00\x02")), "unknown type"),
        (section(10, named(b"\xff", b"\x05\x00")), "not UTF-8"),
        (section(10, named(b"a", b"\x05\x00"))[:-1] + b"\x80", "cut off"),
        (PREAMBLE + b"\x0a\x01", "cut off"),
        (PREAMBLE + b"\x0a\x02\x00\x00", "belong to no import"),
        (PREAMBLE + b"\x0a\x07\x01\x00\x01a\x05\x00\x00", "belong to no import"),
        (PREAMBLE + b"\x0a\x06\xff\xff\xff\xff\x1f\x00", "malformed number"),
        (PREAMBLE + b"\x0a\x05\x01\x00\x7fab", "cut off"),
        (PREAMBLE + b"\x0a\x05\x01\x00\x01a\x05" + b"\x00\x02\x01x", "cut off"),  # into the next section
    ],
)
def test_malformed_sections_are_refused_with_the_reason(data: bytes, said: str) -> None:
    with pytest.raises(InvalidComponentError, match=said):
        read_surface(data)


def test_the_number_of_imports_and_exports_is_limited() -> None:
    items = [named(b"n%d" % number, b"\x05\x00") for number in range(MAX_COMPONENT_NAMES + 1)]
    assert len(read_surface(section(10, *items[:-1])).imports) == MAX_COMPONENT_NAMES
    with pytest.raises(InvalidComponentError, match="over 2000 imports and exports"):
        read_surface(section(10, *items))
    with pytest.raises(InvalidComponentError, match="over 2000 imports and exports"):
        read_surface(section(10, *items[:1000]) + section(11, *(item + b"\x00" for item in items[:1001]))[8:])


@settings(max_examples=examples(300))
@given(st.binary(max_size=80), st.sampled_from([10, 11]))
def test_arbitrary_sections_are_read_or_raise_a_component_error(body: bytes, kind: int) -> None:
    try:
        surface = read_surface(PREAMBLE + bytes([kind]) + leb(len(body)) + body)
    except InvalidComponentError:
        return
    assert len(surface.imports) + len(surface.exports) <= len(body)
