"""Tests that tools with invalid schemas are not installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from wasmrt.testing.attacks import Body, tool

from wasmrt.sandbox.component import ANY_OBJECT

Run = Callable[..., Result]
Write = Callable[..., Path]
Encode = Callable[[str], bytes]

BROKEN = {"type": "object", "properties": {"place": {"type": "string"}}, "required": "place"}


def answering(schema: object) -> Body:
    text = json.dumps(schema).encode()
    return Body(
        text=text,
        schema=f"(i32.store (i32.const 128) (i32.const 1024)) (i32.store (i32.const 132) (i32.const {len(text)})) "
        "(i32.const 128)",
    )


@pytest.fixture
def guest(tool_file: Write, encode: Encode) -> Callable[..., Path]:
    """Writes a near:agent@0.3.0 component with a custom schema."""
    return lambda schema, **more: tool_file("guest", data=encode(tool(answering(schema))), **more)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (BROKEN, "is invalid at required"),
        (
            {"type": "object", "properties": {"a": {"pattern": "(?=b)a"}, "b": {"type": "odd"}}},
            "invalid at properties.b",
        ),
        ({"type": "object", "properties": {f"a{n}": {"pattern": "(?=b)a"} for n in range(40)}}, "in linear time"),
        (["no object"], "schema"),
    ],
)
def test_a_tool_with_a_broken_schema_is_not_installed(
    wasmrt: Run, guest: Callable[..., Path], schema: object, reason: str
) -> None:
    error = json.loads(wasmrt("install", guest(schema), "--yes", "--json", code=2).stderr)
    assert error["code"] == "broken-schema"
    assert reason in error["message"]
    assert error["hint"]
    assert json.loads(wasmrt("list", "--json").stdout) == []


def test_a_pattern_that_cannot_be_checked_is_left_out_of_a_description(wasmrt: Run, guest: Callable[..., Path]) -> None:
    """The schema of a near:agent world only describes the params: the guest checks them."""
    owner = {"type": "string", "pattern": r"^(?!-)[\w-]+$"}
    path = {"anyOf": [{"type": "string", "pattern": r"^[^/\s]{1,4000}$"}, {"type": "string", "pattern": "^/"}]}
    wasmrt("install", guest({"type": "object", "properties": {"owner": owner, "path": path}}), "--yes")
    (shown,) = json.loads(wasmrt("inspect", "guest", "--json").stdout)["tools"]
    left = {"owner": {"type": "string"}, "path": {"anyOf": [{"type": "string"}, {"type": "string", "pattern": "^/"}]}}
    assert shown["schema"]["properties"] == left
    (problem,) = shown["problems"]
    assert "a pattern whose automaton is too large" in problem and problem.endswith("; such patterns are left out")


def test_update_with_a_broken_schema_keeps_the_active_version(wasmrt: Run, guest: Callable[..., Path]) -> None:
    wasmrt("install", guest(ANY_OBJECT))
    wasmrt("install", guest(BROKEN), "--yes", code=2)
    assert json.loads(wasmrt("inspect", "guest", "--json").stdout)["version"] == 1


def test_inspect_reports_that_the_tool_cannot_be_installed(wasmrt: Run, guest: Callable[..., Path]) -> None:
    shown = wasmrt("inspect", guest(BROKEN))
    assert "problem of guest: the schema is invalid at required" in shown.stdout
    assert "cannot be installed" in shown.stderr
    assert json.loads(wasmrt("inspect", guest(BROKEN), "--json").stdout)["tools"][0]["schema_problem"]


def test_capability_file_schema_takes_precedence(wasmrt: Run, guest: Callable[..., Path]) -> None:
    sound = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
    error = wasmrt("install", guest(sound, sidecar={"parameters": BROKEN}), "--yes", "--json", code=2).stderr
    assert '"parameters" in the capability file' in json.loads(error)["message"]
    wasmrt("install", guest(BROKEN, sidecar={"parameters": sound}), "--yes")
    assert json.loads(wasmrt("inspect", "guest", "--json").stdout)["tools"][0]["schema"] == sound
