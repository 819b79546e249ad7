"""Tools in Gemini's format: only keywords of its `Schema`, and never more restrictive than the tool."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wasmrt.sandbox.schema import Validator
from wasmrt.sandbox.schema.providers import render

_TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"}
_KNOWN = {
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
    "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "anyOf", "items", "minimum", "maximum",
}  # fmt: skip


def parts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a schema and every part of it."""
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    below += [schema["items"]] if "items" in schema else []
    return [schema, *(part for each in below for part in parts(each))]


def check(schema: dict[str, Any]) -> None:
    for part in parts(schema):
        assert set(part) <= _KNOWN, set(part) - _KNOWN
        assert ("anyOf" in part) != (part.get("type") in _TYPES)
        assert "anyOf" not in part or (set(part) == {"anyOf"} and part["anyOf"])
        assert ("properties" in part) == (part.get("type") == "OBJECT")
        assert part.get("properties", True), "an object without properties"
        assert set(part.get("required", ())) <= set(part.get("properties", {}))
        if "enum" in part:
            assert part["type"] == "STRING"
            assert all(isinstance(value, str) for value in part["enum"])
        assert ("items" in part) == (part.get("type") == "ARRAY")


def test_a_schema_is_converted_to_gemini_keywords() -> None:
    schema = {
        "type": "object",
        "properties": {
            "unit": {"enum": ["c", "f"], "type": "string", "description": "Which."},
            "when": {"type": ["string", "null"], "format": "date-time"},
            "days": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "place": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"lat": {"type": "number"}}}]},
            "level": {"enum": [1, 2], "type": "integer"},
        },
        "required": ["unit"],
        "additionalProperties": False,
    }
    rendered = render("weather", "Tells the weather.", schema, "gemini")
    assert (rendered["name"], rendered["description"]) == ("weather", "Tells the weather.")
    properties = rendered["parameters"]["properties"]
    check(rendered["parameters"])
    assert properties["unit"] == {"type": "STRING", "enum": ["c", "f"], "format": "enum", "description": "Which."}
    assert properties["when"]["nullable"] is True
    assert properties["days"]["items"] == {"type": "INTEGER", "minimum": 1}
    assert [part["type"] for part in properties["place"]["anyOf"]] == ["STRING", "OBJECT"]
    assert properties["level"] == {"type": "INTEGER"}
    assert rendered["parameters"]["required"] == ["unit"]


def test_common_keywords_of_a_choice_are_repeated_in_each_branch() -> None:
    part = {"description": "Which.", "anyOf": [
        {"type": "string"}, {"type": "null"},
        {"oneOf": [{"type": "integer"}, {"type": "boolean", "description": "On."}]},
    ]}  # fmt: skip
    rendered = render("tool", "", {"type": "object", "properties": {"x": part}}, "gemini")["parameters"]

    assert rendered["properties"]["x"] == {"anyOf": [
        {"description": "Which.", "nullable": True, "type": "STRING"},
        {"description": "Which.", "nullable": True, "type": "INTEGER"},
        {"description": "On.", "nullable": True, "type": "BOOLEAN"},
    ]}  # fmt: skip


def test_free_objects_are_rendered_as_json_text() -> None:
    assert render("tool", "Does it.", {"type": "object"}, "gemini") == {"name": "tool", "description": "Does it."}
    schema = {"type": "object", "properties": {"labels": {"type": "object", "description": "By name."}}}
    rendered = render("tool", "", schema, "gemini")["parameters"]

    assert rendered["properties"]["labels"] == {"type": "STRING", "description": "By name. An object, as JSON text."}
    assert Validator(schema).accept({"labels": '{"a": "b"}'}) == {"labels": {"a": "b"}}


_leaf = st.sampled_from(
    [
        {"type": "string"}, {"type": "integer", "exclusiveMinimum": 0}, {"const": "x"}, {"enum": [1, "a", None]}, {},
        {"type": ["integer", "string"]}, {"type": "string", "pattern": "^a"}, {"type": "null"},
        {"not": {"type": "null"}},
    ]
)  # fmt: skip
_schemas = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(lambda a, b: {"oneOf": [a, b]}, inner, inner),
        st.builds(lambda a, b: {"allOf": [a, b]}, inner, inner),
        st.builds(
            lambda a, b: {"type": "object", "properties": {"a": a, "b c": b}, "required": ["a", "b c"]}, inner, inner
        ),
        st.builds(lambda a: {"type": "object", "patternProperties": {"^x": a}, "additionalProperties": a}, inner),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(_schemas)
def test_renderings_only_have_keywords_that_gemini_knows(part: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"x": part}}
    check(render("tool", "", schema, "gemini")["parameters"])
