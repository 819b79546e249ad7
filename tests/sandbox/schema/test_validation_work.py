"""The work of a check is estimated from values, characters and automata before the check is done."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core.errors import InvalidParametersError
from wasmrt.core.limits import MIB
from wasmrt.core.strict_json import write_json
from wasmrt.sandbox.schema import Validator, schema_problem

TOO_LARGE = "the params are too large for a schema of this size"


def multiplied(leaf: dict[str, Any], times: int, keyword: str = "allOf") -> dict[str, Any]:
    """Return a small schema whose references apply `leaf` `times` squared times to the field `x`."""
    parts = {
        "a": leaf,
        "b": {keyword: [{"$ref": "#/$defs/a"}] * times},
        "c": {keyword: [{"$ref": "#/$defs/b"}] * times},
    }
    return {"type": "object", "$defs": parts, "properties": {"x": {"$ref": "#/$defs/c"}}}


CHECK = """
import json, resource, sys
from wasmrt.core.errors import InvalidParametersError
from wasmrt.sandbox.schema import Validator
validator = Validator(json.loads(sys.argv[1]))
validator.coerce({"x": "ab"})
used = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")][0] * 1024
room = used + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (room, room))
try:
    validator.accept({"x": "a" * 400_000 + "1"})
except InvalidParametersError as error:
    print(error.message)
"""


@pytest.mark.ci("slow")
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_DATA of Linux")
@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("leaf", [{"maxLength": 3}, {"const": "b"}, {"type": "integer"}])
def test_a_long_string_that_fails_many_parts_needs_little_memory(leaf: dict[str, Any], keyword: str) -> None:
    schema = json.dumps(multiplied(leaf, 70, keyword))
    assert len(schema) < 4000
    assert schema_problem(schema) is None
    done = subprocess.run(
        [sys.executable, "-c", CHECK, schema, str(64 * MIB)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.startswith(("x: ", "the params"))


@pytest.mark.parametrize(
    ("schema", "params"),
    [
        (multiplied({"pattern": "^[a-z]*$"}, 15), {"x": "a" * 3_900_000}),
        (multiplied({"contentMediaType": "application/json"}, 20), {"x": "[" * 500_000}),
        (multiplied({"uniqueItems": True}, 20), {"x": list(range(100_000))}),
        ({"properties": {"x": {"pattern": "(?:[ab]{1,50}){1,50}c"}}}, {"x": "ab" * 100_000}),
        ({"properties": {"x": {"pattern": "(?:a|b)*a(?:a|b){2000}c"}}}, {"x": "ab" * 100_000}),
        ({"patternProperties": {f"^a{n}": {} for n in range(90)}}, {"a" * 40_000 + str(n): 1 for n in range(90)}),
        ({"propertyNames": {"pattern": "(?:a|b)*a(?:a|b){2000}c"}}, {"ab" * 1_000 + str(n): 1 for n in range(90)}),
    ],
    ids=["patterns", "media-types", "unique-items", "nested-repeats", "long-repeat", "names", "property-names"],
)
def test_params_with_too_many_steps_are_refused_before_the_check(schema: dict[str, Any], params: Any) -> None:
    validator = Validator(schema)
    for check in (validator.check, validator.accept):
        with pytest.raises(InvalidParametersError, match=TOO_LARGE):
            check(params)


def test_a_large_document_passes_a_schema_with_few_patterns() -> None:
    fields = {f"f{n}": {"type": "string", "pattern": "^[a-z0-9-]{1,40}$"} for n in range(20)}
    validator = Validator({"type": "object", "properties": {**fields, "text": {"type": "string"}}})
    params = {"f1": "a-b", "text": "x" * 3_900_000}
    assert validator.accept(params) is params
    with pytest.raises(InvalidParametersError, match=r"^f1: expected a string that matches"):
        validator.accept(params | {"f1": "A"})


def test_a_schema_that_grows_when_serialized_is_refused() -> None:
    numbers = "[" + ",".join(["1e15"] * 12_000) + "]"
    text = f'{{"type":"object","properties":{{"a":{{"enum":{numbers}}}}}}}'
    assert len(text) < 62_000
    assert schema_problem(text) == "the schema is over 64 KiB"


def test_a_schema_that_takes_too_long_to_compile_is_refused() -> None:
    problem = "the schema has too many parts and patterns to compile; use fewer or smaller ones"
    assert schema_problem(multiplied({"enum": list(range(300))}, 69)) == problem
    fields = {f"f{n}": {"pattern": rf"\p{{L}}{n}"} for n in range(100)}
    assert schema_problem({"type": "object", "properties": fields}) == problem


_leaves = st.sampled_from(
    [{"type": "string"}, {"pattern": "^a+$"}, {"enum": [1e15, "a", None]}, {"maxLength": 2}, {"uniqueItems": True}]
)
_schemas = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda one: {"properties": {"a": one, "é\ud7ff": True}}, inner),
        st.builds(lambda one: {"items": one, "minItems": 1}, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(150), deadline=None)
@given(_schemas)
def test_accepted_schemas_can_check_params(schema: dict[str, Any]) -> None:
    text = json.dumps({"type": "object", "properties": {"p": schema}})
    assert schema_problem(text) is None
    validator = Validator(json.loads(text))
    assert validator.accept({}) == {}
    assert write_json(validator.accept({"q": "x" * 1000}))
