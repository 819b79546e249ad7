"""Schemas of packages with many tools, rendered by the published rules of each provider."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.schema.rules import check_rendering
from tests.sandbox.schema.test_gemini import check as check_gemini
from wasmrt.catalog.package import standard_operations
from wasmrt.sandbox.schema.providers import render

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
REPOSITORY = {"type": "string", "pattern": r"^[^/\s]{1,100}/[^/\s]{1,100}$", "description": "OWNER/NAME."}
KINDS: dict[str, dict[str, Any]] = {
    "closed object of draft 7": {
        "$schema": DRAFT_7, "type": "object", "required": ["owner"], "additionalProperties": False,
        "properties": {"owner": {"type": "string", "minLength": 1}, "page": {"type": "integer", "minimum": 1}},
    },
    "nothing": {"$schema": DRAFT_7, "type": "object", "properties": {}, "additionalProperties": False},
    "definitions": {
        "type": "object", "properties": {"who": {"$ref": "#/definitions/who"}, "twice": {"$ref": "#/definitions/who"}},
        "definitions": {"who": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    },
    "a reference without a target": {
        "type": "object", "properties": {"who": {"$ref": "#/$defs/gone"}, "name": {"type": "string"}},
    },
    "a recursion": {
        "type": "object", "properties": {"part": {"$ref": "#/$defs/part"}},
        "$defs": {"part": {"type": "object", "properties": {"parts": {"type": "array",
                                                                     "items": {"$ref": "#/$defs/part"}}}}},
    },
    "a tagged union": {
        "type": "object", "required": ["action"],
        "oneOf": [
            {"properties": {"action": {"const": "get"}, "id": {"type": "integer"}}, "required": ["action", "id"]},
            {"properties": {"action": {"const": "list"}, "state": {"enum": ["open", None]}}, "required": ["action"]},
        ],
    },
    "nullable fields": {
        "type": "object", "properties": {
            "a": {"type": ["string", "null"]}, "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "c": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        },
    },
    "a large pattern": {"type": "object", "properties": {"repository": REPOSITORY}, "required": ["repository"]},
    "rows of cells": {
        "type": "object", "properties": {"values": {"type": "array", "items": {"type": "array", "items": {
            "type": ["string", "number", "boolean", "null"]}}}}, "required": ["values"],
    },
    "a free object": {"type": "object", "properties": {"fields": {"type": "object", "additionalProperties": True}}},
    "a map": {"type": "object", "properties": {"labels": {"type": "object",
                                                          "additionalProperties": {"type": "string"}}}},
    "numbers with bounds and formats": {
        "type": "object", "properties": {
            "when": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"},
            "size": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}, "kind": {"enum": [1, 2, 3]},
        },
    },
    "either of two fields": {
        "type": "object", "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
        "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
    },
    "a condition": {
        "type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "extra": {"type": "string"}},
        "if": {"properties": {"kind": {"const": "b"}}}, "then": {"required": ["extra"]},
    },
    "a name that no provider takes": {"type": "object", "properties": {"$filter": {"type": "string"}}},
} | {name: operation.input_schema for name, operation in standard_operations().items()}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("provider", ["openai", "anthropic", "mcp"])
def test_schemas_of_packages_follow_the_providers_rules(kind: str, provider: Any) -> None:
    check_rendering(render("tool", "Does it.", KINDS[kind], provider, prompt="# How\n\nSo."), provider)


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_of_packages_follow_the_rules_of_gemini(kind: str) -> None:
    rendered = render("tool", "Does it.", KINDS[kind], "gemini")

    assert rendered.keys() - {"parameters"} == {"name", "description"}
    if "parameters" in rendered:
        assert rendered["parameters"]["type"] == "OBJECT"
        check_gemini(rendered["parameters"])
