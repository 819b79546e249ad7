import json

import pytest
from hypothesis import given, settings

from tests.tiers import examples
from wasmrt.core.errors import GuestOutputError, InvalidParametersError
from wasmrt.sandbox.component import (
    Case,
    EnumType,
    Err,
    FlagsType,
    FuncType,
    ListType,
    Ok,
    OptionType,
    Primitive,
    RecordType,
    ResourceRef,
    ResultType,
    Some,
    TupleType,
    VariantType,
)
from wasmrt.sandbox.schema.wit import (
    explain_unsupported,
    failure_text,
    function_schema,
    split_result,
    to_json,
    to_values,
)

from .strategies import calls, same

BOOL, S8, U8, S32, S64, U64, F32, F64, CHAR, STRING = map(
    Primitive, ["bool", "s8", "u8", "s32", "s64", "u64", "f32", "f64", "char", "string"]
)


def func(result=None, **params):
    return FuncType(tuple((name.replace("_", "-"), kind) for name, kind in params.items()), result)


def read(kind, value):
    return to_values(func(x=kind), {"x": value})[0]


def problem(kind, value):
    with pytest.raises(InvalidParametersError) as caught:
        read(kind, value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@settings(max_examples=examples(100), deadline=None)
@given(calls())
def test_values_round_trip_through_json_text(call):
    kind, values = call
    params = {name: to_json(inner, value) for (name, inner), value in zip(kind.params, values, strict=True)}
    again = to_values(kind, json.loads(json.dumps(params, allow_nan=False)))
    assert same(again, values)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (BOOL, True, True),
        (U8, 255, 255),
        (S8, -128, -128),
        (S32, 5.0, 5),
        (U64, 2**64 - 1, 2**64 - 1),
        (U64, str(2**64 - 1), 2**64 - 1),
        (S64, str(-(2**63)), -(2**63)),
        (F64, 3, 3.0),
        (F64, "-Infinity", float("-inf")),
        (F32, 3.4028235677e38, 3.4028235677e38),
        (CHAR, "🦀", "🦀"),
        (ListType(U8), "AP8=", b"\x00\xff"),
        (ListType(S8), [1, -1], [1, -1]),
        (TupleType((U8, STRING)), [1, "a"], (1, "a")),
        (EnumType(("red", "blue")), "blue", "blue"),
        (FlagsType(("r", "w")), ["w"], frozenset({"w"})),
        (OptionType(U8), None, None),
        (OptionType(U8), 0, 0),
        (OptionType(OptionType(U8)), {"some": None}, Some(None)),
        (OptionType(OptionType(U8)), {"some": 1}, Some(1)),
        (OptionType(OptionType(U8)), None, None),
        (VariantType((("none", None), ("some-of", U8))), {"tag": "none"}, Case("none")),
        (VariantType((("none", None), ("some-of", U8))), {"tag": "some-of", "value": 1}, Case("some-of", 1)),
        (VariantType((("maybe", OptionType(U8)),)), {"tag": "maybe"}, Case("maybe", None)),
        (ResultType(U8, None), {"tag": "ok", "value": 1}, Ok(1)),
        (ResultType(U8, None), {"tag": "err"}, Err()),
        (RecordType((("a", U8), ("b", OptionType(U8)))), {"a": 1}, {"a": 1, "b": None}),
    ],
)
def test_each_type_is_read_from_its_json_form(kind, value, expected):
    assert same(read(kind, value), expected)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (U8, 256, "x: expected an integer from 0 to 255 (u8), got 256"),
        (U8, "5", 'x: expected an integer from 0 to 255 (u8), got the string "5"'),
        (U8, True, "x: expected an integer from 0 to 255 (u8), got true"),
        (U8, 1.5, "x: expected an integer from 0 to 255 (u8), got 1.5"),
        (U64, "18446744073709551616", "got the string"),
        (S64, "٣", "got the string"),
        (S64, "1_0", "got the string"),
        pytest.param(U8, 10**6000, "got an integer of over 128 bits", id="an-integer-beyond-printing"),
        (F64, 10**400, "x: expected a number that f64 can hold"),
        (F32, 3.5e38, "x: expected a number that f32 can hold, got 3.5e+38"),
        (F64, "nan", 'x: expected a number, "NaN", "Infinity" or "-Infinity", got the string "nan"'),
        (F64, False, "got false"),
        (BOOL, 1, "x: expected true or false, got 1"),
        (CHAR, "ab", "x: expected a string of one character"),
        (CHAR, "\ud800", "x: expected a string of one character"),
        (STRING, "a\ud800", "x: the string has a lone surrogate"),
        (STRING, None, "x: expected a string, got null"),
        (ListType(U8), "AP8", "x: expected bytes as a base64 string, with padding"),
        (ListType(U8), [1], "x: expected bytes as a base64 string, got an array of 1 item"),
        (ListType(S8), [1, 2, "c"], 'x[2]: expected an integer from -128 to 127 (s8), got the string "c"'),
        (TupleType((U8, U8)), [1], "x: expected an array of exactly 2 items, got an array of 1 item"),
        (TupleType((U8, U8)), [1, None], "x[1]: expected an integer"),
        (EnumType(("red", "blue")), "blu", 'x: expected one of red, blue, got the string "blu" (did you mean blue?)'),
        (FlagsType(("r", "w")), ["r", "r"], "x: expected unique flags"),
        (FlagsType(("r", "w")), ["z"], "x[0]: expected one of r, w"),
        (OptionType(OptionType(U8)), 1, 'x: expected null or {"some": value}, got 1'),
        (OptionType(OptionType(U8)), {"some": "a"}, "x.some: expected an integer"),
        (VariantType((("none", None), ("num", U8))), {"tag": "non"}, "x.tag: expected one of none, num"),
        (VariantType((("none", None), ("num", U8))), {"tag": ["num"]}, "x.tag: expected one of none, num"),
        (VariantType((("none", None), ("num", U8))), {"tag": "num"}, "x: the case num requires a value"),
        (VariantType((("none", None), ("num", U8))), {"tag": "none", "value": 1}, "x.value: the case none takes no"),
        (VariantType((("none", None), ("num", U8))), {"tag": "num", "value": ""}, "x.value: expected an integer"),
        (VariantType((("none", None), ("num", U8))), {"tag": "none", "vaule": 1}, "x: unknown field vaule"),
        (VariantType((("none", None),)), "none", 'x: expected an object with a "tag" of none, got the string "none"'),
        (ResultType(None, STRING), {"tag": "error"}, "x.tag: expected one of ok, err"),
        (RecordType((("a", RecordType((("b", ListType(CHAR)),))),)), {"a": {"b": [1]}}, "x.a.b[0]: expected a string"),
        (RecordType((("a", U8),)), b"x", "x: expected an object, got bytes"),
        (RecordType((("size", U8),)), {"sise": 1}, "x: unknown field sise (did you mean size?); the fields are size"),
        (ResourceRef("a:b/c#d", True), 1, "x: a resource handle cannot be sent as JSON"),
    ],
)
def test_values_that_do_not_fit_are_reported_in_one_line(kind, value, message):
    assert message in problem(kind, value)


def test_all_missing_and_required_params_are_listed():
    with pytest.raises(InvalidParametersError, match=r"^missing required fields b, c \(required: a, b, c\)$"):
        to_values(func(a=U8, b=U8, c=STRING, d=OptionType(U8)), {"a": 1})


def test_error_messages_have_a_limited_length():
    huge = {"k" * 10_000 + str(i): "\n\x1b[31m" * 10_000 for i in range(1000)}
    for kind in (U8, STRING, RecordType((("a", U8),)), EnumType(("a",))):
        text = problem(kind, huge)
        assert len(text) < 2500
        assert text.isprintable()
    assert len(problem(U8, "x" * 1_000_000)) < 300


def test_split_result_returns_the_ok_or_err_side():
    kind = func(ResultType(U64, VariantType((("gone", None), ("code", U8)))))
    assert split_result(kind, Ok(2**60)) == (True, str(2**60))
    assert split_result(kind, Err(Case("code", 7))) == (False, {"tag": "code", "value": 7})
    assert split_result(func(U8), 7) == (True, 7)
    assert split_result(func(), None) == (True, None)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (None, "the tool failed without an error message"),
        ("", "the tool failed without an error message"),
        ("no such\nfile", "no such\nfile"),  # converted to one line when it is scanned
        ({"tag": "gone"}, "gone"),
        ({"tag": "code", "value": 7}, "code: 7"),
        ({"reason": "é"}, '{"reason": "é"}'),
    ],
)
def test_failures_are_converted_to_text(error, text):
    assert failure_text(error) == text


def test_integers_beyond_a_double_are_written_as_strings():
    assert to_json(S64, 2**53 - 1) == 2**53 - 1
    assert to_json(S64, 2**53) == str(2**53)
    assert to_json(ListType(S64), [-(2**60)]) == [str(-(2**60))]


def test_resource_handles_are_refused_in_both_directions():
    handle = ResourceRef("wasi:io/streams#output-stream", False)
    kind = func(out=ListType(handle))
    assert (
        explain_unsupported(kind)
        == "out contains the resource handle borrow<output-stream>, which JSON cannot represent"
    )
    assert explain_unsupported(func(ResultType(handle, None))) == (
        "its result contains the resource handle borrow<output-stream>, which JSON cannot represent"
    )
    with pytest.raises(GuestOutputError):
        to_json(handle, 1)


def test_async_and_oversized_functions_are_unsupported():
    assert explain_unsupported(func(a=U8)) is None
    assert "async" in explain_unsupported(FuncType((), None, True))
    deep = U8
    for _ in range(20):
        deep = ListType(deep)
    deep = ListType(deep)
    assert "nested over 16 deep" in explain_unsupported(func(a=deep))
    wide = EnumType(tuple(f"case-{i}" for i in range(10_000)))
    assert "over 64 KiB" in explain_unsupported(func(a=wide))


def test_the_schema_of_params_has_a_property_for_each_param():
    schema = function_schema(func(city_name=STRING, days=OptionType(U8), tags=ListType(STRING)))
    assert schema == {
        "type": "object",
        "properties": {
            "city-name": {"type": "string"},
            "days": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 255}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city-name", "tags"],
        "additionalProperties": False,
    }
