"""Check that a rendered tool follows the published rules of its provider."""

import re

import jsonschema_rs

TOP_FORBIDDEN = {"oneOf", "anyOf", "allOf", "enum", "not", "const", "if", "$ref"}
STRICT_KEYWORDS = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "description", "title",
    "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems",
    "maxItems",
}  # fmt: skip
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")


def parts(schema):
    yield schema
    for key in MAPS:
        for inner in schema.get(key, {}).values():
            assert isinstance(inner, dict), f"a bare {inner} under {key}"
            yield from parts(inner)
    for key in LISTS:
        for inner in schema.get(key, []):
            assert isinstance(inner, dict), f"a bare {inner} in {key}"
            yield from parts(inner)
    for key in SINGLE:
        inner = schema.get(key)
        if isinstance(inner, bool):
            assert key == "additionalProperties", f"a bare {inner} under {key}"
        elif inner is not None:
            assert isinstance(inner, dict)
            yield from parts(inner)


def check_schema(schema, provider, strict=False):
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert not TOP_FORBIDDEN & schema.keys(), TOP_FORBIDDEN & schema.keys()
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    for part in parts(schema):
        assert "$ref" not in part
        assert "type" not in part or isinstance(part["type"], str), part
        assert part.get("type") != "array" or isinstance(part["items"], dict), part
        for name in part.get("properties", {}):
            assert PROPERTY.fullmatch(name), name
        if provider == "openai":
            assert not {"oneOf", "prefixItems"} & part.keys(), part
        if strict:
            assert part.keys() <= STRICT_KEYWORDS, part
            assert part.keys() & {"type", "anyOf", "enum", "const"}, part
            if part.get("type") == "object":
                assert part["additionalProperties"] is False
                assert sorted(part["required"]) == sorted(part["properties"])


def check_rendering(rendered, provider, strict=False):
    """The schema inside, after the provider's own envelope was checked."""
    if provider == "openai":
        assert rendered.keys() == {"type", "function"}
        assert rendered["type"] == "function"
        inner = rendered["function"]
        assert inner.keys() == {"name", "description", "parameters"} | ({"strict"} if strict else set())
        assert len(inner["description"].encode()) <= 1024
        schema = inner["parameters"]
    else:
        inner, key = rendered, "input_schema" if provider == "anthropic" else "inputSchema"
        assert inner.keys() == {"name", "description", key}
        schema = inner[key]
    assert NAME.fullmatch(inner["name"])
    check_schema(schema, provider, strict)
    return schema
