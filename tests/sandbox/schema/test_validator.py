import contextlib
import json
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core.errors import InvalidComponentError, InvalidParametersError
from wasmrt.core.limits import MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH
from wasmrt.sandbox.component import Primitive, VariantType
from wasmrt.sandbox.schema import Validator, coerce, schema_gaps, schema_problem
from wasmrt.sandbox.schema._document import SchemaError
from wasmrt.sandbox.schema._validator import _compile
from wasmrt.sandbox.schema.wit import type_schema


def obj(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


INTEGER, STRING = {"type": "integer"}, {"type": "string"}


@pytest.fixture
def listener():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


def nobody_called(server):
    with pytest.raises(BlockingIOError):
        server.accept()


@pytest.mark.parametrize("place", ["$ref", "properties", "$schema", "$dynamicRef", "$defs"])
def test_schemas_with_remote_references_cause_no_network_access(listener, place):
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
    schema = {"type": "object"} | {
        "$ref": {"$ref": url},
        "properties": {"properties": {"a": {"$ref": url}}},
        "$schema": {"$schema": url},
        "$dynamicRef": {"$dynamicRef": url},
        "$defs": {"$defs": {"a": {"$id": url, "$ref": "other.json"}}, "$ref": "#/$defs/a"},
    }[place]
    assert schema_problem(schema) is not None
    with pytest.raises(InvalidComponentError):
        Validator(schema).check({})
    nobody_called(listener)


def test_the_validator_itself_follows_no_references(listener, tmp_path):
    # Defense in depth: the validator itself must not follow a reference that was not removed.
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
    file = tmp_path / "schema.json"
    file.write_text("{}")
    for reference in (url, file.as_uri(), "json-schema:///other"):
        with pytest.raises(SchemaError, match="retrieving it failed"):
            _compile({"$ref": reference})
    nobody_called(listener)


def test_schemas_with_file_references_are_refused(tmp_path):
    file = tmp_path / "schema.json"
    file.write_text("{}")
    assert "only references to itself" in str(schema_problem({"properties": {"a": {"$ref": file.as_uri()}}}))


@pytest.mark.parametrize("where", ["pattern", "patternProperties"])
def test_backtracking_patterns_take_linear_time(where):
    evil = "^(a+)+$"
    text = "a" * 100_000 + "!"
    schema = obj(x={"type": "string", "pattern": evil}) if where == "pattern" else {"patternProperties": {evil: False}}
    validator = Validator(schema)
    if where == "pattern":
        with pytest.raises(InvalidParametersError):
            validator.check({"x": text})
    else:
        validator.check({text: 1})


@pytest.mark.parametrize("where", ["pattern", "patternProperties"])
@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        *((pattern, "cannot run in linear time") for pattern in ("(?=a)b", r"(a)\1", "(?<!x)y", r"^(?!\d{1,3}$)\w+$")),
        *((pattern, "invalid pattern") for pattern in ("(", "[z-a]", "a{2,1}", "*", "(a{2,3}")),
        ("(((a{1000}){1000}){1000})", "automaton is too large"),
        (r"^[^/\s]{1,4000}$", "automaton is too large"),
        (r"[{}]{3}(\p{L}{1,900}){7}", "automaton is too large"),
    ],
)
def test_refused_patterns_have_the_correct_reason(pattern, reason, where):
    schema = obj(x={"pattern": pattern}) if where == "pattern" else obj(x={"patternProperties": {pattern: {}}})
    problem = schema_problem(schema)
    assert problem is not None
    assert reason in problem
    assert sum(word in problem for word in ("linear time", "invalid", "too large")) == 1
    assert f"(at properties.x.{where}" in problem


@pytest.mark.parametrize("pattern", [r"^[^/\s]{1,100}/[^/\s]{1,100}$", r"^[\w-]{1,200}$", r"^.{1,255}$"])
def test_patterns_with_usual_repetition_counts_are_accepted(pattern):
    assert schema_problem(obj(x={"type": "string", "pattern": pattern})) is None


def test_exponentially_growing_definitions_are_refused():
    steps = 200
    defs = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(steps)}
    schema = {"type": "object", "$defs": defs | {f"d{steps}": {}}, "$ref": "#/$defs/d0"}
    assert schema_problem(schema) == "the schema has references that expand to more than 10,000 parts"


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_nesting_of_unevaluated_keywords_is_limited(keyword):
    defs = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}], keyword: False} for i in range(30)} | {"d30": {}}
    problem = "the schema nests unevaluatedProperties or unevaluatedItems over 3 deep"
    assert schema_problem({"$defs": defs, "$ref": "#/$defs/d0"}) == problem
    assert schema_problem({"$defs": defs, "$ref": "#/$defs/d27"}) is None


def bushy():
    """Return a schema with a choice of a thousand branches, built from choices of four."""
    defs = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 4} for i in range(5)} | {"d5": INTEGER}
    return {"$defs": defs, **obj(["a", "b"], a={"type": "array", "items": {"$ref": "#/$defs/d0"}}, b=INTEGER)}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"b": 1, "a": ["x"] * 200}, "a: an array of 200 items does not match its schema"),
        ({"c": ["x"] * 20_000}, "missing required fields a, b (required: a, b)"),
        ({"a": [1], "b": 1, "c": [1] * 20_000}, "unknown field c; the fields are a, b"),
        ([1] * 20_000, "expected an object, got an array of 20000 items"),
    ],
)
def test_errors_that_would_need_much_memory_have_no_details(params, message):
    validator = Validator(bushy())
    with pytest.raises(InvalidParametersError) as caught:
        validator.accept(params)
    assert message in str(caught.value)


def test_one_wrong_item_in_a_long_array_is_reported():
    validator = Validator(obj(a={"type": "array", "items": INTEGER}))
    with pytest.raises(InvalidParametersError, match=r"^a\[99999\]: expected an integer, got null$"):
        validator.accept({"a": [1] * 99_999 + [None]})


def test_large_params_for_a_large_schema_are_refused():
    options = [n + 0.5 for n in range(4000)]
    validator = Validator(obj(a={"type": "array", "items": {"enum": options}}))
    validator.check({"a": options[-2:]})
    with pytest.raises(InvalidParametersError, match="too large for a schema of this size"):
        validator.check({"a": options[-1:] * 1_000})


def test_recursive_schemas_are_checked_some_levels_deep():
    tree = obj(["name"], name=STRING, children={"type": "array", "items": {"$ref": "#/$defs/tree"}})
    validator = Validator({"$defs": {"tree": tree}, **obj(["root"], root={"$ref": "#/$defs/tree"})})
    validator.check({"root": {"name": "a", "children": [{"name": "b", "children": []}]}})
    with pytest.raises(InvalidParametersError, match=r"^root\.children\[0\]: missing required field name"):
        validator.check({"root": {"name": "a", "children": [{}]}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    ],
)
def test_schemas_that_refer_to_themselves_are_expanded_finitely(schema):
    deep = {}
    for _ in range(60):
        deep = {"a": deep}
    assert schema_problem(schema) is None
    Validator(schema).check(deep)


def test_keywords_next_to_a_reference_are_kept():
    name = {"type": "string", "description": "a name"}
    schema = {"$defs": {"name/x": name}, **obj(a={"$ref": "#/$defs/name~1x", "maxLength": 2, "description": "mine"})}
    Validator(schema).check({"a": "ab"})
    for wrong in ({"a": 1}, {"a": "abc"}):
        with pytest.raises(InvalidParametersError):
            Validator(schema).check(wrong)


def endless():
    deep = []
    for _ in range(5000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "the schema is not JSON"),
        ("[1]", "the schema is not a JSON object"),
        ("true", "the schema is not a JSON object"),
        ("[" * 60_000, "the schema is JSON nested over 64 deep"),
        pytest.param({"a": endless()}, "the schema is JSON nested over 64 deep", id="nested-beyond-recursion"),
        ('"' + '\\"' * 30_000, "the schema is not JSON"),
        ('{"minimum": NaN}', "the schema is not JSON"),
        ('{"minimum": 1' + "0" * 5000 + "}", "the schema is not JSON"),
        ({"a": {1, 2}}, "the schema is not JSON"),
        ({"type": "array"}, 'the schema is of type "array", but params must be an object'),
        ({"type": ["object", "null"]}, "but params must be an object"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "has an unknown dialect"),
        ({"properties": {"a": {"$id": "https://a.example/b"}}}, "has an $id in a subschema"),
        ({"properties": {"a": {"$ref": "#name"}}}, "refers to #name; only references to itself"),
        ({"properties": {"a": {"type": "strnig"}}}, "is invalid at properties.a.type"),
        ({"properties": {"a": 5}}, "is invalid at properties.a"),
        ({"required": "a"}, "is invalid at required"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, "the schema is over 64 KiB"),
    ],
)
def test_invalid_schemas_are_described_in_one_line(schema, problem):
    said = schema_problem(schema)
    assert said is not None
    assert problem in said
    assert said.isprintable()
    assert len(said) < 400
    with pytest.raises(InvalidComponentError):
        Validator(schema).check({})


def nested(depth):
    schema = {}
    for _ in range(depth - 1):
        schema = {"properties": {"a": schema}}
    return schema


def test_schema_depth_is_limited():
    assert schema_problem(nested(MAX_SCHEMA_DEPTH)) is None
    assert schema_problem(nested(MAX_SCHEMA_DEPTH + 1)) == f"the schema is nested over {MAX_SCHEMA_DEPTH} deep"


def test_references_into_lists_of_schemas_are_supported():
    schema = {"allOf": [{"type": "object", "properties": {"n": INTEGER}}], **obj(a={"$ref": "#/allOf/0/properties/n"})}
    schema["properties"]["n"] = {}
    with pytest.raises(InvalidParametersError, match=r"^a: expected an integer"):
        Validator(schema).check({"a": "x"})


def test_properties_can_have_the_names_of_keywords():
    schema = obj(**{"$ref": STRING, "properties": INTEGER, "$id": STRING, "allOf": {"const": {"$ref": "http://x"}}})
    assert schema_problem(schema) is None
    Validator(schema).check({"$ref": "a", "properties": 1, "allOf": {"$ref": "http://x"}})


@pytest.mark.parametrize("draft", ["draft-04/schema#", "draft-06/schema", "draft-07/schema#"])
def test_older_dialects_are_supported(draft):
    schema = {
        "$schema": f"http://json-schema.org/{draft}",
        **obj(["a"], a={"type": "array", "items": [INTEGER, STRING]}),
    }
    assert schema_problem(schema) is None
    with pytest.raises(InvalidParametersError, match=r"^a\[1\]: expected a string, got 2"):
        Validator(schema).check({"a": [1, 2]})


CHOICE = {
    "oneOf": [
        obj(["tag", "radius"], tag={"const": "circle"}, radius={"type": "number"}),
        obj(["tag"], tag={"const": "none"}),
    ]
}


@pytest.mark.parametrize(
    ("schema", "params", "message"),
    [
        (obj(["a", "b", "c"], a=INTEGER), {}, "missing required fields a, b, c (required: a, b, c)"),
        (obj(["a", "b"], a=INTEGER, b=STRING), {"b": ""}, "missing required field a (required: a, b)"),
        (obj(["a"], a=INTEGER), {}, "missing required field a (required: a)"),
        (obj(a=INTEGER), {"a": "x"}, 'a: expected an integer, got the string "x"'),
        (obj(a={"type": ["integer", "null"]}), {"a": []}, "a: expected an integer or null, got an array of 0 items"),
        (obj(name=STRING), {"nmae": "x"}, "unknown field nmae (did you mean name?); the fields are name"),
        (obj(name=STRING, count=INTEGER), {"nmae": "x", "cuont": 1},
         "unknown fields nmae (did you mean name?), cuont (did you mean count?); the fields are name, count"),
        (obj(a=obj(b={"type": "array", "items": obj(name=STRING)})), {"a": {"b": [{"name": ""}, {"nmae": "x"}]}},
         "a.b[1]: unknown field nmae (did you mean name?); the fields are name"),
        (obj(a={"$ref": "#/$defs/place"}) | {"$defs": {"place": obj(name=STRING)}}, {"a": {"nmae": ""}},
         "a: unknown field nmae (did you mean name?)"),
        ({"allOf": [{"properties": {"name": STRING}}], "unevaluatedProperties": False}, {"nmae": "x"},
         "unknown field nmae (did you mean name?); the fields are name"),
        ({"properties": {"name": STRING}, "patternProperties": {"^x-": {}}, "additionalProperties": False}, {"nmae": 1},
         "unknown field nmae (did you mean name?); the fields are name, and fields that match a pattern"),
        (obj(name=STRING, b=obj(a=INTEGER)) | {"anyOf": [{"properties": {"nmae": {}}}]}, {"nmae": "x"},
         "unknown field nmae (did you mean name?); the fields are name, b"),
        (obj(), {"x": 1, "y": 2}, "unknown fields x, y; no fields are allowed here"),
        (obj(a={"enum": ["red", "blue", 3]}), {"a": "rde"},
         'a: expected one of red, blue, 3, got the string "rde" (did you mean red?)'),
        (obj(a={"const": 4}), {"a": 5}, "a: expected 4, got 5"),
        (obj(a={"minimum": 3}), {"a": 1}, "a: expected a number of at least 3, got 1"),
        (obj(a={"minLength": 3}), {"a": "é"}, "a: expected a string of at least 3 characters, got 1"),
        (obj(a={"maxItems": 1}), {"a": [1, 2]}, "a: expected at most 1 items, got an array of 2 items"),
        (obj(a={"uniqueItems": True}), {"a": [1, 1]}, "a: expected unique items"),
        (obj(a={"pattern": "^b"}), {"a": "c"}, 'a: expected a string that matches ^b, got the string "c"'),
        (obj(a={"not": {}}), {"a": 1}, "a: 1 is not allowed here"),
        (obj(a=obj(b={"type": "array", "items": INTEGER})), {"a": {"b": [1, None]}},
         "a.b[1]: expected an integer, got null"),
        (obj(a=CHOICE), {"a": {"tag": "circle"}}, "a: missing required field radius (required: tag, radius)"),
        (obj(a=CHOICE), {"a": {"tag": "circle", "radius": ""}}, "a.radius: expected a number"),
        (obj(a=CHOICE), {"a": {"tag": "cirle"}}, "a: expected tag to be one of circle, none, got"),
        (obj(a=CHOICE), {"a": 5}, "a: expected an object, got 5"),
        (obj(a={"anyOf": [INTEGER, {"type": "null"}]}), {"a": "x"}, "a: expected an integer or null, got"),
        (obj(a={"anyOf": [INTEGER, {"pattern": "^[0-9]$", **STRING}]}), {"a": "x"},
         "a: expected an integer or a string that matches ^[0-9]$, got"),
        (obj(a={"anyOf": [{**INTEGER, "maximum": 9}, STRING]}), {"a": 10}, "a: expected a number of at most 9, got 10"),
        (obj(a={"oneOf": [INTEGER, {"type": "number"}]}), {"a": 1},
         "a: 1 matches more than one of the 2 allowed forms"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "missing required field b"),
        ({"properties": {"a": {"contains": INTEGER}}}, {"a": []}, "a: "),
        (obj(a={"anyOf": [{"contains": INTEGER}, {"contains": STRING}]}), {"a": []}, "a: "),
        (obj(), [1], "expected an object, got an array of 1 item"),
    ],
)  # fmt: skip
def test_errors_of_params_are_described_in_one_line(schema, params, message):
    with pytest.raises(InvalidParametersError) as caught:
        Validator(schema).check(params)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    assert caught.value.hint


def test_several_errors_are_listed_and_the_rest_is_counted():
    schema = obj(**dict.fromkeys("abcde", INTEGER))
    with pytest.raises(InvalidParametersError) as caught:
        Validator(schema).check(dict.fromkeys("abcde", "x"))
    assert str(caught.value).count("expected an integer") == 3
    assert str(caught.value).endswith("; and 2 more")


def test_validation_messages_have_a_limited_length():
    huge = {"k\n" * 50_000: ["x" * 100_000] * 100, "a": "\x1b[31m" * 100_000}
    with pytest.raises(InvalidParametersError) as caught:
        Validator(obj(["a" * 10_000, "b"], a=INTEGER)).check(huge)
    assert len(str(caught.value)) < 1600
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("params", [{"a": b"x"}, {"a": object()}, {1: 2}, {"a": "\ud800"}, {"a": float("nan")}])
def test_params_that_are_not_json_data_are_refused(params):
    validator = Validator(obj(a={}, **{"1": {"type": "integer"}}))
    validator.check({"a": "b"})
    with pytest.raises(InvalidParametersError):
        Validator({"type": "object", "properties": {"a": {"type": ["integer", "array"]}}, "maxProperties": 0}).check(
            params
        )


def test_recursive_params_are_refused():
    validator = Validator(obj(a={"type": "integer"}))
    for attempt in (validator.check, validator.accept):
        with pytest.raises(InvalidParametersError, match="not JSON data"):
            attempt({"a": endless()})


def test_a_validator_compiles_its_schema_at_the_first_check():
    validator = Validator({"type": "nonsense"})
    with pytest.raises(InvalidComponentError, match="the tool's schema is of type"):
        validator.check({})


# --- coercion

SHAPE = type_schema(VariantType((("dot", Primitive("u8")), ("nothing", None))))


@pytest.mark.parametrize(
    ("schema", "given_", "expected"),
    [
        (INTEGER, "5", 5),
        (INTEGER, "-12", -12),
        (INTEGER, "5.0", 5),
        (INTEGER, str(2**64), 2**64),
        ({"type": "number"}, "1.5e3", 1500.0),
        ({"type": "number"}, "0.1", 0.1),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "array", "items": INTEGER}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": INTEGER}, '["1", 2]', [1, 2]),
        ({"type": "array", "items": INTEGER}, ["1", "2"], [1, 2]),
        ({"type": "array", "prefixItems": [INTEGER, STRING]}, ["1", "2"], [1, "2"]),
        (obj(n=INTEGER), '{"n": "5"}', {"n": 5}),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "5", 5),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": True}, "true", True),
        ({"anyOf": [{"type": "number"}, {"enum": ["NaN"]}]}, "5", 5),
        ({"allOf": [{"type": ["integer", "boolean"]}, {"type": ["integer", "array"]}]}, "5", 5),
        ({"allOf": [obj(a=INTEGER)]}, {"a": "1"}, {"a": 1}),
        (CHOICE, {"tag": "circle", "radius": "2.5"}, {"tag": "circle", "radius": 2.5}),
        (CHOICE, '{"tag": "circle", "radius": "2.5"}', {"tag": "circle", "radius": 2.5}),
        ({"additionalProperties": INTEGER, "type": "object"}, {"any": "5"}, {"any": 5}),
        (obj(a=INTEGER, b=INTEGER), {"a": "1", "b": None}, {"a": 1}),
        (SHAPE, "nothing", {"tag": "nothing"}),
        ({"anyOf": [*SHAPE["anyOf"], {"type": "null"}]}, "nothing", {"tag": "nothing"}),
        ({"type": "array", "items": SHAPE}, ["nothing"], [{"tag": "nothing"}]),
        (SHAPE, '{"tag": "nothing"}', {"tag": "nothing"}),
    ],
)
def test_unambiguous_strings_are_converted(schema, given_, expected):
    params = {"x": given_}
    before = json.dumps(params)
    changed = coerce(obj(x=schema), params)
    assert json.dumps(changed) == json.dumps({"x": expected})
    Validator(obj(x=schema)).check(changed)
    assert json.dumps(params) == before


@pytest.mark.parametrize(
    ("schema", "given_"),
    [
        (STRING, "5"),
        ({"type": ["string", "integer"]}, "5"),
        ({"anyOf": [{**STRING, "maxLength": 1}, INTEGER]}, "55"),
        (INTEGER, "five"),
        (INTEGER, "5.5"),
        (INTEGER, "007"),
        (INTEGER, " 5 x"),
        (INTEGER, "0x10"),
        (INTEGER, "1_000"),
        (INTEGER, "٣"),
        (INTEGER, "9" * 1000),
        (INTEGER, "true"),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "1e999"),
        ({"type": "number"}, "0.1000000000000000055511151231257827"),
        ({"type": "boolean"}, "yes"),
        ({"type": "boolean"}, "1"),
        ({"type": "boolean"}, 1),
        (INTEGER, ""),
        (INTEGER, "null"),
        ({"type": "array"}, "1, 2"),
        ({"type": "array"}, "["),
        ({"type": "array"}, "[" * 50_000),
        ({"type": "array"}, "[" * 100 + "]" * 100),
        ({"type": "object"}, '{"a": 1, "a": 2}'),
        ({"type": "object"}, '{"a": 0.12345678901234567890}'),
        ({"enum": ["1", 2]}, "3"),
        (STRING, 5),
        (obj(["a"], a=INTEGER), {"a": None}),
        (CHOICE, {"tag": "square", "radius": "2"}),
        ({"anyOf": [obj(a=INTEGER), obj(a={"type": "boolean"})]}, {"a": "5"}),
        (SHAPE, "dot"),
        (SHAPE, "circle"),
        ({"anyOf": [*SHAPE["anyOf"], STRING]}, "nothing"),
        ({"allOf": [SHAPE, SHAPE]}, "nothing"),
    ],
)
def test_ambiguous_and_lossy_conversions_are_not_made(schema, given_):
    params = {"x": given_, "other": 1}
    schema = {"type": "object", "properties": {"x": schema}, "required": ["x", "missing"]}
    assert coerce(schema, params) == params
    assert json.dumps(coerce(schema, params)) == json.dumps(params)


def test_accept_returns_coerced_params_or_raises():
    validator = Validator(obj(["n"], n=INTEGER))
    valid = {"n": 1}
    assert validator.accept(valid) is valid
    assert validator.accept({"n": "1"}) == valid
    with pytest.raises(InvalidParametersError, match=r'^n: expected an integer, got the string "one"$'):
        validator.accept({"n": "one"})


data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
TYPES = ("integer", "number", "boolean", "null", "string", "array", "object")
bounds = st.fixed_dictionaries(
    {},
    optional={
        "type": st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        "minimum": st.integers(-2, 2),
        "maxLength": st.integers(0, 3),
        "enum": st.lists(data, min_size=1, max_size=3),
        "description": st.text(max_size=3),
        "format": st.sampled_from(["uri", "date"]),
        "prefixItems": st.lists(
            st.sampled_from([{"type": "integer"}, {"type": "string"}, {}, True]), min_size=1, max_size=2
        ),
        "maxItems": st.integers(0, 3),
        "items": st.booleans(),
        "dependentRequired": st.just({"a": ["b"]}),
    },
)
kinds = st.recursive(
    st.sampled_from([{"type": t} for t in TYPES]) | bounds
    | st.just({}) | st.lists(data, min_size=1, max_size=3).map(lambda options: {"enum": options}),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
        st.lists(inner, min_size=1, max_size=2).map(lambda branches: {"oneOf": branches}),
        st.lists(inner, min_size=1, max_size=2).map(lambda branches: {"allOf": branches}),
        inner.map(lambda items: {"type": "array", "items": items}),
        st.tuples(st.dictionaries(st.text("ab", max_size=2), inner | st.booleans(), max_size=3), inner).map(
            lambda pair: {"type": "object", "properties": pair[0], "additionalProperties": pair[1]}
        ),
        inner.map(lambda not_: {"not": not_}),
    ),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.ci("slow")
@settings(max_examples=examples(150), deadline=None)
@given(kinds, data)
def test_coercion_does_not_change_valid_params_or_its_input(kind, value):
    schema, params = {"type": "object", "properties": {"x": kind}}, {"x": value}
    before = json.dumps(params)
    changed = coerce(schema, params)
    assert json.dumps(params) == before
    try:
        Validator(schema).check(params)
    except InvalidParametersError:
        assert coerce(schema, changed) == changed
    else:
        assert changed is params


KEYWORDS = ("$ref", "$defs", "allOf", "anyOf", "oneOf", "not", "if", "else", "type", "properties", "items", "enum",
            "required", "const", "pattern", "additionalProperties", "minimum", "prefixItems")  # fmt: skip
odd = st.recursive(
    data | st.sampled_from(["#", "#/$defs/a", "#/nope", "object"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(400), deadline=None)
@given(st.dictionaries(st.sampled_from(KEYWORDS), odd, max_size=4), data)
def test_keywords_with_arbitrary_values_never_raise_other_errors(schema, value):
    if schema_problem(schema) is not None:
        return
    schema_gaps(schema)
    with contextlib.suppress(InvalidParametersError):
        Validator(schema).accept({"x": value})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "else": {"$ref": None}},
        {"type": "object", "$ref": "#", "allOf": True},
        {"oneOf": [{"$ref": "#/nope"}], "allOf": True},
    ],
)
def test_keywords_with_values_of_a_wrong_type_are_schema_problems(schema):
    assert schema_problem(schema) is not None


@settings(max_examples=examples(100), deadline=None)
@given(kinds, data)
def test_messages_can_be_built_for_any_schema_and_params(kind, value):
    validator = Validator({"type": "object", "properties": {"x": kind}, "required": ["x"]})
    try:
        validator.accept({"x": value})
    except InvalidParametersError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 1600


@pytest.mark.parametrize(
    ("schema", "gap"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "refers to #/$defs/b, which does not exist"),
        ({"properties": {"a": {"$ref": "#/required"}}, "required": ["b"]}, "#/required, which is not a schema"),
    ],
)
def test_parts_with_missing_reference_targets_are_reported(schema, gap):
    assert schema_problem(schema) is None
    assert gap in "; ".join(schema_gaps(schema))


UNION = {
    "oneOf": [
        {"properties": {"action": {"const": "get"}, "id": {"type": "integer"}}, "required": ["action", "id"]},
        {"properties": {"action": {"const": "put"}, "who": {"$ref": "#/$defs/gone"}}, "required": ["action"]},
    ]
}


def test_other_forms_are_checked_if_one_has_a_missing_reference_target():
    Validator(UNION).check({"action": "put", "who": {"anything": True}})
    Validator(UNION).check({"action": "get", "id": 1})
    with pytest.raises(InvalidParametersError):
        Validator(UNION).check({"action": "get", "id": "x"})


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"$ref": "#/$defs/gone"}, {"properties": {"a": {"type": "integer"}}}]},
        {"not": {"$ref": "#/$defs/gone"}},
        {"if": {"$ref": "#/$defs/gone"}, "then": {"required": ["never"]}},
        {"allOf": [{"$ref": "#/$defs/gone"}], "unevaluatedProperties": False},
    ],
)
def test_missing_reference_targets_never_cause_a_refusal(schema):
    Validator({"type": "object", **schema}).check({"a": 1})


def test_large_patterns_are_accepted_in_schemas_with_few_patterns():
    schema = {"properties": {"repository": {"type": "string", "pattern": r"^[^/\s]{1,100}/[^/\s]{1,100}$"}}}

    assert schema_problem(schema) is None
    with pytest.raises(InvalidParametersError):
        Validator(schema).check({"repository": "no slash"})
