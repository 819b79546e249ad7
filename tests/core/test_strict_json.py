"""JSON is read and written according to RFC 8259, within bounds; no other error is raised."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core.strict_json import (
    JsonError,
    JsonFault,
    check_nesting,
    check_text,
    encode_json,
    parse_json,
    read_json,
    write_json,
)

BOUNDS = {"max_bytes": 1000, "max_depth": 5, "max_parts": 20}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def fault(text: str | bytes, **settings: Any) -> JsonFault:
    with pytest.raises(JsonError) as caught:
        read_json(text, **BOUNDS | settings)
    return caught.value.fault


@given(VALUES)
def test_written_json_reads_back_as_the_same_value(value: Any) -> None:
    text = write_json(value)
    assert parse_json(text) == parse_json(f" \n{text}\t\r ") == json.loads(text) == value
    assert read_json(text.encode(), max_bytes=10_000, max_depth=64) == value


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "-Infinity", "1e999", "[-1e999]", "", " ", "{", "[1] 2", "'a'", "\v1", "01", "[1,]"]
)
def test_text_that_only_some_readers_accept_is_refused(text: str) -> None:
    assert fault(text) is JsonFault.SYNTAX


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 6 + "]" * 6, JsonFault.DEPTH),
        ("[" * 10, JsonFault.DEPTH),
        ("[" + "[]," * 20 + "[]]", JsonFault.PARTS),
        ('"' + "a" * 1000 + '"', JsonFault.SIZE),
        ('"' + "é" * 600 + '"', JsonFault.SIZE),
        (b'"\xff"', JsonFault.ENCODING),
        (b'"' + b"a" * 1000 + b'"', JsonFault.SIZE),
    ],
)
def test_every_bound_has_its_own_fault(text: str | bytes, reason: JsonFault) -> None:
    assert fault(text) is reason


def test_text_at_the_bounds_is_accepted() -> None:
    assert read_json("[" * 5 + "]" * 5, **BOUNDS) == [[[[[]]]]]
    assert len(read_json("[" + "[]," * 18 + "[]]", **BOUNDS)) == 19
    assert read_json('"' + "é" * 499 + '"', **BOUNDS) == "é" * 499


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 1}', "[0.10000000000000000001]", "1e400", "1" * 401, "0." + "1" * 400, "123456789012345678.5"],
)
def test_exact_reading_refuses_ambiguous_text(text: str) -> None:
    assert fault(text, exact=True) is JsonFault.SYNTAX


@pytest.mark.parametrize("text", ['{"a": 1, "b": 1}', "0.1", "1e3", "12345678901234567890", "[1.5, -0.0]"])
def test_unambiguous_text_reads_the_same_with_and_without_exact(text: str) -> None:
    assert read_json(text, **BOUNDS, exact=True) == read_json(text, **BOUNDS)


def test_a_value_that_is_not_json_is_not_written() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value in (float("nan"), float("inf"), {1, 2}, b"a", {(1,): 1}, object(), endless):
        with pytest.raises(JsonError):
            write_json(value)


def test_half_a_surrogate_pair_is_refused() -> None:
    check_text(parse_json('"\\ud83d\\ude00"'))
    for text in ('"\\ud83d"', '{"\\ude00": 1}', '[["a\\udfff"]]'):
        with pytest.raises(JsonError):
            check_text(parse_json(text))


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@settings(max_examples=examples(300))
@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans(), st.integers(0, 6))
def test_nesting_is_counted_as_a_reader_would_count_it(value: Any, indent: Any, ascii_only: bool, limit: int) -> None:
    tricky = [value, '[{"\\', {'"]': value, "\\": "{["}]
    text = json.dumps(tricky, indent=indent, ensure_ascii=ascii_only)
    if depth_of(tricky) <= limit:
        check_nesting(text, max_depth=limit)
    else:
        with pytest.raises(JsonError, match="nested over"):
            check_nesting(text, max_depth=limit)


@given(st.text(st.sampled_from('[]{}",:\\a1 '), max_size=60) | st.binary(max_size=30))
def test_any_text_is_read_or_raises_json_error(text: str | bytes) -> None:
    for exact in (False, True):
        try:
            value = read_json(text, **BOUNDS, exact=exact)
        except JsonError as error:
            assert isinstance(error.fault, JsonFault)
        else:
            assert depth_of(value) <= 5


@pytest.mark.ci("slow")
def test_a_million_nested_lists_are_refused_without_recursion() -> None:
    for text in ("[" * 1_000_000, '{"a":' * 1_000_000, "[" * 1_000_000 + "]" * 1_000_000):
        with pytest.raises(JsonError):
            check_nesting(text, max_depth=64)


@pytest.mark.parametrize("number", ["1e99999999999999999999", "-1e-9999999999999999999999", "1E+1001", "0e2000"])
def test_a_huge_exponent_is_refused_by_exact_reading(number: str) -> None:
    with pytest.raises(JsonError):
        parse_json(number, exact=True)


def turns(work: Callable[[], object]) -> int:
    """Return how many Python functions `work` enters; at each, the interpreter can switch to another thread."""
    entered = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal entered
        entered += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return entered


ROWS = [{"n": n, "text": str(n), "more": [None, True]} for n in range(30_000)]


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    "value",
    [
        [1] * 100_000,
        {"x": (0.5,) * 100_000},
        {"a": {"b": ROWS}},
        [[[]] * 30_000],
        dict.fromkeys(map(str, range(60_000))),
    ],
    ids=["numbers", "fractions", "rows", "lists", "names"],
)
@pytest.mark.parametrize(
    "encoder",
    [
        json.JSONEncoder(separators=(",", ":")),
        json.JSONEncoder(ensure_ascii=False, sort_keys=True),
        json.JSONEncoder(default=str),
    ],
    ids=["short", "sorted", "spaced"],
)
def test_a_large_value_is_written_in_small_pieces(value: Any, encoder: json.JSONEncoder) -> None:
    looks = Checks()
    assert encode_json(encoder, value, check=looks) == encoder.encode(value)
    assert looks.number > 5
    assert turns(lambda: encode_json(encoder, value)) > looks.number  # other threads can run in between


def test_check_can_interrupt_reading_and_writing_a_large_value() -> None:
    value = [1] * 200_000
    for work in (partial(write_json, value), partial(parse_json, write_json(value))):
        looks = Checks()
        work(check=looks)
        assert looks.number > 40
        with pytest.raises(Ended):
            work(check=end)


class Checks:
    """Counts the calls of `check`."""

    number = 0

    def __call__(self) -> None:
        self.number += 1


class Ended(Exception):
    """Raised by `check` to interrupt the work."""


def end() -> None:
    raise Ended


@pytest.mark.ci("slow")
@pytest.mark.parametrize("number", ["12", "1.5"])
def test_hundreds_of_thousands_of_numbers_are_read_one_by_one(number: str) -> None:
    text = f"[{','.join([number] * 200_000)}]"
    assert turns(lambda: parse_json(text)) > 200_000
    assert parse_json(text) == json.loads(text)


def test_a_small_value_is_read_and_written_in_one_step() -> None:
    value = {"query": "otters", "limit": 3, "where": [{"a": 1}, {"b": [2, 3]}]}
    assert turns(lambda: parse_json(write_json(value))) < 20


def test_a_value_that_contains_itself_is_refused() -> None:
    held: list[Any] = [0] * 30_000
    held.append(held)
    with pytest.raises(JsonError, match="contains itself"):
        write_json(held)
    small: dict[str, Any] = {}
    small["self"] = small
    with pytest.raises(JsonError, match="in itself"):
        write_json(small)


@pytest.mark.ci("slow")
def test_writing_a_large_value_leaves_no_reference_cycles() -> None:
    value = [[0.5] * 30_000]
    gc.collect()
    gc.disable()
    try:
        write_json(value)
        with pytest.raises(Ended):
            write_json(value, check=end)
        assert gc.collect() < 10
    finally:
        gc.enable()
