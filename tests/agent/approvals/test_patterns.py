"""Patterns match their own call, and calls that differ only in widened params."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wasmrt.agent.approvals import ParamsPattern, Wide, Widening
from wasmrt.core.errors import ConfigurationError

NAMES = st.text(alphabet="ab/~0 é.*", max_size=3)
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, -0.0, 1.0, 2.5]) | NAMES
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(NAMES, v, max_size=3), max_leaves=8)
PARAMS = st.dictionaries(NAMES, VALUES, max_size=4)


def places(value: Any, pointer: str = "") -> Iterator[str]:
    """Return the JSON Pointers of all values in params, except the whole."""
    steps: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        steps = [(name.replace("~", "~0").replace("/", "~1"), item) for name, item in value.items()]
    elif isinstance(value, list):
        steps = [(str(index), item) for index, item in enumerate(value)]
    for step, item in steps:
        yield f"{pointer}/{step}"
        yield from places(item, f"{pointer}/{step}")


def changed(params: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(params)
    *way, last = [s.replace("~1", "/").replace("~0", "~") for s in pointer[1:].split("/")]
    at: Any = result
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[int(last) if isinstance(at, list) else last] = value
    return result


def within(pointer: str, wide: set[str]) -> bool:
    return any(pointer == w or pointer.startswith(w + "/") for w in wide)


@given(PARAMS, st.data())
def test_a_widened_pattern_matches_its_own_params(params: dict[str, Any], data: st.DataObject) -> None:
    pattern = ParamsPattern(params)
    for pointer in data.draw(st.lists(st.sampled_from([*places(params)] or [""]), max_size=3)):
        if pointer:
            pattern = pattern.widen(pointer, Widening(Wide.ANY))
    assert pattern.matches(copy.deepcopy(params))
    assert ParamsPattern.from_dict(pattern.as_dict()) == pattern


@given(PARAMS, st.data(), VALUES)
def test_a_param_that_is_not_widened_matches_no_other_value(
    params: dict[str, Any], data: st.DataObject, value: Any
) -> None:
    every = [*places(params)]
    assume(every)
    wide = set(data.draw(st.lists(st.sampled_from(every), max_size=2)))
    pattern = ParamsPattern(params)
    for pointer in wide:
        pattern = pattern.widen(pointer, Widening(Wide.ANY))
    at = data.draw(st.sampled_from(every))
    other = changed(params, at, value)
    assume(repr(other) != repr(params))
    # If a parent value changed, the widened places of the old value must still exist.
    if not within(at, wide) and not any(w.startswith(at + "/") for w in wide):
        assert pattern.matches(other) is same(params, other)
    elif within(at, wide):
        assert pattern.matches(other)


def same(one: Any, other: Any) -> bool:
    """Return whether JSON data is equal, regardless of the order of names, including types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


@given(PARAMS, NAMES, VALUES)
def test_an_additional_param_never_matches(params: dict[str, Any], name: str, value: Any) -> None:
    assume(name not in params)
    pattern = ParamsPattern(params)
    for known in params:
        pattern = pattern.widen("/" + known.replace("~", "~0").replace("/", "~1"), Widening(Wide.ANY))
    assert not pattern.matches({**params, name: value})
    assert not ParamsPattern({**params, name: value}).matches(params)


@given(
    st.lists(st.sampled_from(["a", "b", "..", ".", "", "%2e%2e", "a\\b", "aa"]), min_size=1, max_size=5), st.booleans()
)
def test_a_matching_path_is_below_its_folder(parts: list[str], absolute: bool) -> None:
    path = ("/" if absolute else "") + "/".join(parts)
    if Widening(Wide.BELOW, "a/b").matches(path):
        assert parts[:2] == ["a", "b"] and not absolute
        assert set(parts[2:-1]) <= {"a", "b", "aa"}
        assert len([p for p in parts if p]) > 2


BELOW = [
    ("src/", "src/a.py", True),
    ("src/", "src/a/b.py", True),
    ("src/", "src/a/", True),
    ("src/", "src", False),
    ("src/", "src/", False),
    ("src/", "srcs/a.py", False),
    ("src/", "SRC/a.py", False),
    ("src/", "/src/a.py", False),
    ("src/", "./src/a.py", False),
    ("src/", "src/../x", False),
    ("src/", "src/a/../../x", False),
    ("src/", "src//a", False),
    ("src/", "src/%2E%2e/x", False),
    ("src/", "src/..%2fx", False),
    ("src/", "src\\..\\x", False),
    ("src/", "src/a\0", False),
    ("/srv/data/", "/srv/data/x", True),
    ("/srv/data/", "srv/data/x", False),
    ("src/", ["src/a"], False),
    ("src/", None, False),
    ("src/", "src/" + "a" * 5000, False),
]


@pytest.mark.parametrize(("pattern", "value", "matches"), BELOW)
def test_paths_match_by_whole_segments(pattern: str, value: Any, matches: bool) -> None:
    assert Widening.parse(pattern).matches(value) is matches


STARTS = [
    ("git log*", "git log", True),
    ("git log*", "git log --oneline -5", True),
    ("git log*", "git log; rm -rf x", False),
    ("git log*", "git log && true", False),
    ("git log*", "git log `id`", False),
    ("git log*", "git log\nrm x", False),
    ("git log*", "git log\u2028rm x", False),
    ("git log*", "git log > out", False),
    ("git log*", "git log ../x", False),
    ("git log*", " git log", False),
    ("git log*", "git", False),
    ("notes/*", "notes/a/../../x", False),
    ("notes/*", "notes/%2e%2e/x", False),
    ("notes/*", "notes/a..b", True),
    ("https://example.com/*", "https://example.com/a?b=1", False),
    ("https://example.com/*", "https://example.com/a/b", True),
    ("https://example.com/*", "https://example.com.evil.test/", False),
    ("otters*", ["otters"], False),
]


@pytest.mark.parametrize(("pattern", "value", "matches"), STARTS)
def test_a_prefix_continues_without_shell_syntax_only(pattern: str, value: Any, matches: bool) -> None:
    assert Widening.parse(pattern).matches(value) is matches


@pytest.mark.parametrize(
    "text", ["", "x", "/", "//", "./", "a/../", "../", "https://example.com*", "HTTPS://example*", "//host*", "a//b/"]
)
def test_a_misleading_pattern_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Widening.parse(text)


def test_a_pattern_for_any_value_has_no_text() -> None:
    assert Widening.parse("*") == Widening.parse("any") == Widening(Wide.ANY)
    with pytest.raises(ConfigurationError):
        Widening(Wide.ANY, "x")
    with pytest.raises(ConfigurationError):
        Widening(Wide.STARTS)


@pytest.mark.parametrize("place", ["missing", "/missing", "/items/2", "/items/-1", "/items/00", "/items/x", "", "/"])
def test_only_params_of_the_call_can_be_widened(place: str) -> None:
    with pytest.raises(ConfigurationError):
        ParamsPattern({"items": [1, 2]}).widen(place, Widening(Wide.ANY))


def test_a_widening_must_match_the_call_itself() -> None:
    with pytest.raises(ConfigurationError, match="below src"):
        ParamsPattern({"path": "notes/a"}).widen("path", Widening.parse("src/"))


def test_members_and_items_are_widened_separately() -> None:
    pattern = ParamsPattern({"rows": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]})
    pattern = pattern.widen("/rows/1/name", Widening(Wide.ANY))
    assert pattern.matches({"rows": [{"id": 1, "name": "a"}, {"id": 2, "name": "z"}]})
    assert not pattern.matches({"rows": [{"id": 1, "name": "z"}, {"id": 2, "name": "b"}]})
    assert not pattern.matches({"rows": [{"id": 1, "name": "a"}]})


def test_a_pattern_reads_as_a_sentence() -> None:
    pattern = ParamsPattern({"path": "src/a", "limit": 3, "query": "otters"})
    assert pattern.words == "exactly these parameters"
    pattern = pattern.widen("path", Widening.parse("src/")).widen("limit", Widening.parse("any"))
    pattern = pattern.widen("query", Widening.parse("ott*"))
    assert pattern.words == 'limit: anything, path: below src, query: "ott*", other parameters unchanged'
