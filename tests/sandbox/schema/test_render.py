import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core.errors import ConfigurationError, InvalidComponentError, InvalidParametersError
from wasmrt.sandbox.schema import Validator, coerce, schema_problem
from wasmrt.sandbox.schema.providers import provider_schema, render

from .rules import check_rendering, check_schema
from .test_validator import data, kinds

PROVIDERS = ("openai", "anthropic", "mcp")
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ISSUES = {
    "type": "object",
    "description": "Works on issues.",
    "properties": {"action": {"type": "string", "description": "what to do"}, "repo": STRING},
    "required": ["action"],
    "oneOf": [
        {
            "properties": {"action": {"const": "create"}, "title": STRING, "body": STRING},
            "required": ["action", "repo", "title"],
        },
        {"properties": {"action": {"const": "close"}, "number": INTEGER}, "required": ["action", "repo", "number"]},
    ],
}


def rendered(schema, provider="openai", **options):
    return check_rendering(render("a-tool", "does it", schema, provider, **options), provider, **options)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_choice_at_the_top_level_becomes_one_object(provider):
    assert rendered(ISSUES, provider) == {
        "type": "object",
        "description": (
            'Works on issues. Exactly one of these forms: (1) action = "create", requires repo, title, optional body; '
            '(2) action = "close", requires repo, number.'
        ),
        "properties": {
            "action": {"type": "string", "description": "what to do", "enum": ["create", "close"]},
            "repo": STRING,
            "title": STRING,
            "body": STRING,
            "number": INTEGER,
        },
        "required": ["action", "repo"],
    }


def test_validation_uses_the_schema_before_flattening():
    with pytest.raises(InvalidParametersError):
        Validator(ISSUES).check({"action": "close", "repo": "a/b", "title": "x"})


def test_a_choice_of_required_fields_is_described():
    schema = {"type": "object", "properties": {"id": INTEGER, "name": STRING},
              "anyOf": [{"required": ["id"]}, {"required": ["name"]}]}  # fmt: skip
    flat = rendered(schema, "anthropic")
    assert flat["required"] == []
    assert flat["description"] == "At least one of these forms: (1) requires id; (2) requires name."


def test_all_of_at_the_top_level_is_merged():
    base = {"properties": {"id": INTEGER}, "required": ["id"]}
    schema = {"type": "object", "allOf": [base, {"properties": {"name": STRING, "id": {"minimum": 1}}}]}
    flat = rendered(schema)
    assert flat["properties"] == {"id": {"type": "integer", "minimum": 1}, "name": STRING}
    assert flat["required"] == ["id"]


def test_other_rules_at_the_top_level_are_described():
    schema = {"type": "object", "properties": {"a": INTEGER}, "not": {"required": ["b"]}, "if": {}, "then": {}}
    rules = 'Additional rules (JSON Schema): {"if": {}, "not": {"required": ["b"]}, "then": {}}'
    assert rules in rendered(schema)["description"]


def test_nullable_typed_properties_are_kept():
    schema = {"type": "object", "properties": {"a": {"type": ["string", "null"], "maxLength": 3, "description": "d"}}}
    assert rendered(schema)["properties"]["a"] == {
        "description": "d",
        "anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}],
    }


def test_references_are_inlined_and_recursion_is_limited():
    tree = {"type": "object", "properties": {"name": STRING, "inner": {"$ref": "#/$defs/tree"}}}
    flat = rendered({"$defs": {"tree": tree}, "$ref": "#/$defs/tree", "title": "Tree"}, "mcp")
    assert flat["properties"]["inner"]["properties"] == {"name": STRING, "inner": {}}
    assert flat["title"] == "Tree"


def test_properties_with_unsupported_names_are_described_and_allowed():
    schema = {"type": "object", "properties": {"ok": STRING, "not ok": INTEGER, "never": False},
              "required": ["ok", "not ok"], "additionalProperties": False}  # fmt: skip
    flat = rendered(schema, "anthropic")
    assert flat["properties"] == {"ok": STRING}
    assert flat["required"] == ["ok"]
    assert flat["description"] == 'Also takes {"not ok": {"type": "integer"}}'
    assert "additionalProperties" not in flat


def test_draft_4_exclusive_bounds_are_converted():
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
              "properties": {"a": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}}  # fmt: skip
    assert rendered(schema)["properties"]["a"] == {"type": "number", "exclusiveMinimum": 0}


def test_arrays_always_have_items():
    schema = {"type": "object", "properties": {
        "any": {"type": "array"},
        "pair": {"type": "array", "prefixItems": [STRING, INTEGER], "items": False},
    }}  # fmt: skip
    flat = rendered(schema)
    assert flat["properties"]["any"] == {"type": "array", "items": {}}
    assert flat["properties"]["pair"]["items"] == {"anyOf": [STRING, INTEGER]}
    assert flat["properties"]["pair"]["maxItems"] == 2


def test_closed_forms_are_merged_to_a_closed_object():
    closed = {"additionalProperties": False}
    schema = {"type": "object", "oneOf": [
        {"properties": {"at": STRING}, "description": "one", **closed}, {"properties": {"at": INTEGER}, **closed},
    ]}  # fmt: skip
    assert rendered(schema) == {
        "type": "object",
        "description": "Exactly one of these forms: (1) optional at; (2) optional at.",
        "properties": {"at": {"anyOf": [STRING, INTEGER]}},
        "required": [],
        "additionalProperties": False,
    }


def test_two_constraints_on_a_property_are_both_kept():
    schema = {"type": "object", "properties": {"a": {"minimum": 1}}, "allOf": [
        {"properties": {"a": {"minimum": 2}}, "description": "inner", "additionalProperties": False}, True,
    ], "unevaluatedProperties": False}  # fmt: skip
    flat = rendered(schema)
    assert flat["properties"] == {"a": {"allOf": [{"minimum": 1}, {"minimum": 2}]}}
    assert flat["description"] == "inner"
    assert flat["additionalProperties"] is False


def test_each_type_of_a_list_keeps_its_own_keywords():
    schema = {"type": "object", "properties": {
        "a": {"type": ["integer", "string"], "minimum": 1, "enum": [1, 2, "x", None], "title": "A"},
        "b": {"type": ["integer", "string"], "enum": [True, 3]},
        "c": {"type": ["string"]},
        "d": {"type": ["string", "null"], "anyOf": [{"minLength": 1}, {"pattern": "x"}]},
    }}  # fmt: skip
    properties = rendered(schema)["properties"]
    assert properties["a"] == {
        "title": "A",
        "anyOf": [{"type": "integer", "minimum": 1, "enum": [1, 2]}, {"type": "string", "enum": ["x"]}],
    }
    assert properties["b"] == {"anyOf": [{"type": "integer", "enum": [3]}]}
    assert properties["c"] == STRING
    assert properties["d"] == {
        "allOf": [{"anyOf": [{"minLength": 1}, {"pattern": "x"}]}],
        "anyOf": [STRING, {"type": "null"}],
    }


def test_strict_is_refused_over_ten_levels():
    schema = STRING
    for _ in range(11):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(ConfigurationError, match="over 10 levels"):
        render("t", "", schema, "openai", strict=True)


def test_strict_adds_a_null_branch_to_an_optional_choice():
    schema = {"type": "object", "properties": {"a": {"anyOf": [STRING, INTEGER]}, "b": {"type": "null"}}}
    strict = rendered(schema, strict=True)
    assert strict["properties"] == {"a": {"anyOf": [STRING, INTEGER, {"type": "null"}]}, "b": {"type": "null"}}


def test_strict_requires_every_property_and_makes_optional_ones_nullable():
    schema = {"type": "object", "required": ["a"], "properties": {
        "a": {"type": "string", "maxLength": 5, "format": "uri", "default": "x"},
        "b": {"type": "integer", "description": "how many", "minimum": 1},
        "c": {"oneOf": [INTEGER, {"type": "null"}]},
    }}  # fmt: skip
    strict = rendered(schema, strict=True)
    assert strict == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"description": "how many", "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "c": {"anyOf": [INTEGER, {"type": "null"}]},
        },
        "required": ["a", "b", "c"],
        "additionalProperties": False,
    }
    answer = {"a": "x", "b": None, "c": None}
    assert coerce(schema, answer) == {"a": "x", "c": None}


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"a": {}}, "accepts any value"),
        ({"a": {"type": "object"}}, "an object that accepts any field"),
        ({"a": {"type": "object", "additionalProperties": STRING}}, "an object that accepts any field"),
        ({"a": {"type": "string", "not": {"const": "x"}}}, "it uses not"),
        ({"a": {"enum": list(range(1001))}}, "too many properties or enum values"),
        ({"a": {"enum": [f"{number:060}" for number in range(251)]}}, "too long in total"),
        ({"a": {"type": "array", "items": {"type": "array"}}}, "accepts any value"),
    ],
)
def test_schemas_without_a_strict_form_are_refused_with_the_reason(properties, why):
    schema = {"type": "object", "properties": properties}
    with pytest.raises(ConfigurationError, match=why):
        render("t", "", schema, "openai", strict=True)
    rendered(schema)


def test_strict_keeps_long_enums_and_only_plain_patterns():
    schema = {"type": "object", "required": ["a", "b", "c", "d"], "properties": {
        "a": {"enum": [str(number) for number in range(1000)]},
        "b": {"type": "string", "pattern": "^(?:a|b)+$"},
        "c": {"type": "string", "pattern": "^(?=.*a)b"},
        "d": {"type": "string", "pattern": r"(a)\1"},
    }}  # fmt: skip
    strict = rendered(schema, strict=True)["properties"]
    assert len(strict["a"]["enum"]) == 1000
    assert strict["b"] == {"type": "string", "pattern": "^(?:a|b)+$"}
    assert strict["c"] == strict["d"] == STRING


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "é", "a\n"])
def test_invalid_tool_names_are_refused(name):
    with pytest.raises(ConfigurationError, match="invalid tool name"):
        render(name, "", {"type": "object"}, "mcp")


def test_an_unknown_provider_and_a_broken_schema_are_errors():
    with pytest.raises(ConfigurationError, match="no rendering for cohere"):
        render("t", "", {}, "cohere")
    with pytest.raises(ConfigurationError, match="no strict rendering for mcp"):
        render("t", "", {}, "mcp", strict=True)
    with pytest.raises(InvalidComponentError):
        render("t", "", {"$ref": "http://example.invalid/"}, "mcp")


def test_long_descriptions_are_truncated_for_openai():
    assert len(render("t", "é" * 5000, {}, "openai")["function"]["description"].encode()) <= 1024
    assert len(render("t", "é" * 5000, {}, "anthropic")["description"]) == 5000


objects = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(st.text("ab -", max_size=3), kinds | st.booleans(), max_size=3),
        "required": st.lists(st.text("ab -", max_size=3), max_size=2, unique=True),
        "additionalProperties": st.booleans() | kinds,
        "oneOf": st.lists(kinds, min_size=1, max_size=2),
        "anyOf": st.lists(kinds, min_size=1, max_size=2),
        "allOf": st.lists(kinds, min_size=1, max_size=2),
        "enum": st.lists(data, min_size=1, max_size=2),
        "not": kinds,
        "if": kinds,
        "description": st.text(max_size=5),
    },
)


@settings(max_examples=examples(120), deadline=None)
@given(objects)
def test_any_schema_renders_validly_for_each_provider(schema):
    assert schema_problem(schema) is None
    for provider in PROVIDERS:
        check_schema(json.loads(json.dumps(provider_schema(schema, provider))), provider)
    try:
        strict = provider_schema(schema, "openai", strict=True)
    except ConfigurationError:
        return
    check_schema(strict, "openai", strict=True)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "mcp"])
def test_a_choice_of_nan_or_an_object_becomes_the_object(provider):
    either = {"anyOf": [{"enum": ["NaN", "Infinity", "-Infinity"]}, {"type": "object", "properties": {"y": STRING}}]}
    rendered = provider_schema({"type": "object", "properties": {"x": either}}, provider)
    assert rendered["properties"]["x"] == {"type": "object", "properties": {"y": STRING}}
