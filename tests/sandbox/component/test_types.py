"""Types are values: equal by structure, spelled as WIT spells them, and told apart by their kind."""

from __future__ import annotations

import dataclasses

import pytest

from wasmrt.sandbox.component import (
    EnumType,
    FlagsType,
    FuncType,
    ListType,
    Ok,
    OptionType,
    Primitive,
    RecordType,
    ResourceRef,
    ResultType,
    TupleType,
    VariantType,
    has_unbounded_lift,
    walk,
)

U8, STRING = Primitive("u8"), Primitive("string")


def test_types_of_different_kinds_are_not_equal() -> None:
    assert len({ListType(U8), OptionType(U8), ListType(U8)}) == 2
    assert EnumType(("a",)) != FlagsType(("a",))
    assert Ok(1) != Some1(1)


@dataclasses.dataclass(frozen=True, slots=True)
class Some1:
    value: int


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (RecordType((("a", U8), ("b", ListType(STRING)))), "record { a: u8, b: list<string> }"),
        (TupleType((U8, STRING)), "tuple<u8, string>"),
        (VariantType((("a", None), ("b", U8))), "variant { a, b(u8) }"),
        (EnumType(("a", "b")), "enum { a, b }"),
        (FlagsType(("a",)), "flags { a }"),
        (OptionType(U8), "option<u8>"),
        (ResultType(None, None), "result"),
        (ResultType(U8, None), "result<u8>"),
        (ResultType(None, U8), "result<_, u8>"),
        (ResourceRef("wasi:io/streams#output-stream", False), "borrow<output-stream>"),
        (ResourceRef("", True), "resource"),
        (FuncType((("a", U8),), STRING), "func(a: u8) -> string"),
        (FuncType((), None, is_async=True), "async func()"),
    ],
)
def test_str_of_a_type_is_wit_syntax(kind: object, text: str) -> None:
    assert str(kind) == text


def test_walk_yields_outer_types_before_inner_types() -> None:
    kind = ResultType(ListType(OptionType(U8)), VariantType((("a", STRING), ("b", None))))
    assert list(map(str, walk(kind))) == [
        "result<list<option<u8>>, variant { a(string), b }>",
        "list<option<u8>>", "option<u8>", "u8", "variant { a(string), b }", "string",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "unbounded"),
    [(STRING, False), (ListType(U8), False), (ListType(STRING), True), (OptionType(ListType(ListType(U8))), True)],
)
def test_lists_of_allocated_elements_have_an_unbounded_lift(kind: object, unbounded: bool) -> None:
    assert has_unbounded_lift(kind) is unbounded  # type: ignore[arg-type]
