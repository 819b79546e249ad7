import contextlib
import json

import pytest
from hypothesis import assume, given, settings

from tests.tiers import examples
from wasmrt.core.errors import ConfigurationError, InvalidParametersError
from wasmrt.sandbox.component import (
    FuncType,
    ListType,
    OptionType,
    Primitive,
    ResourceRef,
    TupleType,
    VariantType,
)
from wasmrt.sandbox.schema import Validator, coerce, schema_problem
from wasmrt.sandbox.schema.providers import provider_schema, render
from wasmrt.sandbox.schema.wit import function_schema, to_json, to_values, type_schema

from .rules import check_rendering, parts
from .strategies import calls

PROVIDERS = ("openai", "anthropic", "mcp")
U8, F64, STRING = Primitive("u8"), Primitive("f64"), Primitive("string")


def as_json(func, values):
    return {name: to_json(kind, value) for (name, kind), value in zip(func.params, values, strict=True)}


@settings(max_examples=examples(60), deadline=None)
@given(calls())
def test_every_value_of_the_types_matches_the_schema(call):
    func, values = call
    schema = function_schema(func)
    params = as_json(func, values)
    assert schema_problem(schema) is None
    Validator(schema).check(params)
    assert coerce(schema, params) is params


@settings(max_examples=examples(60), deadline=None)
@given(calls())
def test_function_schemas_have_no_type_unions_and_no_top_level_choice(call):
    schema = function_schema(call[0])
    assert not {"oneOf", "anyOf", "allOf"} & schema.keys()
    for part in json_parts(schema):
        assert not isinstance(part.get("type"), list)


def json_parts(data):
    if isinstance(data, dict):
        yield data
        data = list(data.values())
    for inner in data if isinstance(data, list) else ():
        yield from json_parts(inner)


@settings(max_examples=examples(60), deadline=None)
@given(calls())
def test_function_schemas_render_validly_for_each_provider(call):
    func, values = call
    schema = function_schema(func)
    for provider in PROVIDERS:
        rendered = json.loads(json.dumps(render("a-tool", "does it", schema, provider)))
        check_rendering(rendered, provider)
    try:
        strict = render("a-tool", "does it", schema, "openai", strict=True)
    except ConfigurationError as error:
        assert "no strict form" in str(error)
        return
    check_rendering(strict, "openai", strict=True)
    # In strict mode a model sends every field, and the function accepts such a call.
    to_values(func, coerce(schema, as_json(func, values)))


@settings(max_examples=examples(100), deadline=None)
@given(calls())
def test_renderings_allow_every_call_with_finite_numbers(call):
    func, values = call
    params = as_json(func, values)
    assume(not any(word in json.dumps(params) for word in ("NaN", "Infinity")))
    for provider in PROVIDERS:
        Validator(provider_schema(function_schema(func), provider)).check(params)
    with contextlib.suppress(ConfigurationError):  # if it has no strict form
        # In strict mode a model sends every field, with null for absent ones.
        Validator(provider_schema(function_schema(func), "openai", strict=True)).check(params)


@settings(max_examples=examples(60), deadline=None)
@given(calls())
def test_values_refused_by_the_schema_are_refused_by_the_reader(call):
    func, values = call
    name = func.params[0][0]
    for wrong in ({"no": "such"}, [[["x"]]], "\x00?"):
        params = as_json(func, values) | {name: wrong}
        try:
            Validator(function_schema(func)).check(params)
        except InvalidParametersError:
            with pytest.raises(InvalidParametersError):
                to_values(func, params)


def test_floats_are_rendered_as_numbers_without_nan():
    func = FuncType((("x", F64),), None)
    schema = render("t", "", function_schema(func), "anthropic")["input_schema"]
    assert schema["properties"]["x"] == {"type": "number"}
    Validator(function_schema(func)).check({"x": "NaN"})


def test_tuple_order_is_described_without_prefix_items():
    func = FuncType((("point", TupleType((F64, F64))), ("pair", TupleType((U8, STRING)))), None)
    openai = render("t", "", function_schema(func), "openai")["function"]["parameters"]["properties"]
    assert openai["point"]["items"] == {"type": "number"}
    assert (openai["point"]["minItems"], openai["point"]["maxItems"]) == (2, 2)
    assert "in this order" in openai["pair"]["description"]
    mcp = render("t", "", function_schema(func), "mcp")["inputSchema"]["properties"]
    assert len(mcp["pair"]["prefixItems"]) == 2


def test_nested_options_distinguish_both_kinds_of_absence():
    schema = {"type": "object", "properties": {"x": type_schema(OptionType(OptionType(U8)))}}
    check = Validator(schema).check
    for value in (None, {"some": None}, {"some": 3}):
        check({"x": value})
    with pytest.raises(InvalidParametersError):
        check({"x": 3})


def test_no_value_matches_the_schema_of_a_resource_handle():
    check = Validator({"type": "object", "properties": {"x": type_schema(ResourceRef("a:b/c#d", True))}}).check
    for value in (0, None, {}):
        with pytest.raises(InvalidParametersError):
            check({"x": value})


def test_every_part_of_a_large_schema_is_typed():
    func = FuncType((("v", VariantType((("a", ListType(U8)), ("b", None)))), ("l", ListType(ListType(U8)))), None)
    for part in parts(function_schema(func)):
        assert part.keys() & {"type", "anyOf"}
