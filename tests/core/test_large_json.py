"""Large JSON texts are parsed in steps: other threads run meanwhile, and memory is bounded."""

from __future__ import annotations

import gc
import json
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core import large_json, strict_json
from wasmrt.core.large_json import StepReader
from wasmrt.core.limits import MIB
from wasmrt.core.strict_json import JsonError, parse_json

SIZE = 4 * MIB
TEXTS: dict[str, Callable[[], str]] = {
    "names": lambda: "{" + ",".join(f'"k{n}":1' for n in range(380_000)) + "}",
    "names, few enough": lambda: "{" + ",".join(f'"key{n}":1' for n in range(150_000)) + "}",
    "strings": lambda: "[" + ",".join(f'"s{n}"' for n in range(390_000)) + "]",
    "short strings": lambda: "[" + '"ab",' * 790_000 + "1]",
    "literals": lambda: "[" + "null," * 830_000 + "1]",
    "floats": lambda: "[" + "0.1," * 1_000_000 + "1]",
    "integers": lambda: "[" + "999," * 1_000_000 + "1]",
    "records": lambda: "[" + ",".join(f'{{"id":{n},"name":"the name {n}","tags":["a"]}}' for n in range(49_000)) + "]",
    "one string": lambda: '["' + "x" * SIZE + '"]',
    "escapes": lambda: '["' + '\\"' * (SIZE // 2) + '"]',
    "colons": lambda: '["' + ":" * SIZE + '"]',
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


def in_steps(text: str) -> Any:
    return StepReader(text, json.JSONDecoder(), lambda: None).read()


@settings(max_examples=examples(400), deadline=None)
@given(json_values, st.sampled_from([None, 1]), st.data())
def test_reading_in_steps_equals_the_reader_of_json(value: Any, indent: int | None, data: st.DataObject) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=data.draw(st.booleans()))
    assert in_steps(f" \t\n{text}\r ") == json.loads(text)
    broken = data.draw(st.integers(0, len(text) - 1))
    instead = data.draw(st.sampled_from(["", ",", '"', "]", "}", "x", "{", "\\", ":"]))
    changed = text[:broken] + instead + text[broken + 1 :]
    try:
        expected = json.loads(changed)
    except ValueError:
        with pytest.raises(ValueError):
            in_steps(changed)
    else:
        assert in_steps(changed) == expected


def test_a_text_with_many_names_keeps_the_rules_of_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "LARGE_CHARS", 0)
    monkeypatch.setattr(large_json, "_MANY_NAMES", 0)
    assert parse_json('{"a": {"b": [1.5, "c"]}}', exact=True) == {"a": {"b": [1.5, "c"]}}
    for text in ('{"a": 1, "a": 2}', '{"a": 0.1000000000000000055511151231257827}'):
        with pytest.raises(JsonError):
            parse_json(text, exact=True)
    for text in ('{"a": NaN}', '{"a": 1e999}', '{"a": 1} x', '{"a" 1}', "{", '{"a":' * 5000):
        with pytest.raises(JsonError):
            parse_json(text)


def test_common_large_texts_are_within_the_bounds() -> None:
    assert len(parse_json('"' + "x" * (SIZE - 2) + '"')) == SIZE - 2
    assert len(parse_json('"' + "\u2019" * SIZE + '"')) == SIZE
    assert parse_json("[" + "0.5," * 99_999 + "0.5]", distinct=True) == [0.5] * 100_000


@pytest.mark.parametrize("character", ["\U0001f600", r"\ud83d\ude00", r"\uDBFF\uDFFF"])
def test_a_large_text_with_characters_of_four_bytes_is_refused(character: str) -> None:
    assert len(parse_json(f'"{"x" * (SIZE // 2 - 20)}{character}"')) == SIZE // 2 - 19
    with pytest.raises(JsonError, match="of them beyond U"):
        parse_json(f'"{"x" * (SIZE // 2)}{character}"')


@pytest.mark.ci("slow")
@pytest.mark.parametrize("name", TEXTS)
def test_the_values_of_a_4_mib_text_take_at_most_32_mib(name: str) -> None:
    text = TEXTS[name]()
    tracemalloc.start()
    try:
        parse_json(text)
    except JsonError as error:
        assert str(error) == "too large: over 14 MiB in memory"
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 34 * MIB


@pytest.mark.ci("slow")
@pytest.mark.parametrize("name", TEXTS)
def test_other_threads_run_while_a_large_text_is_parsed(name: str) -> None:
    """The best of five tries: a thread may also wait for other load.

    The garbage collector stops all threads too, for as long as it looks at the objects of this test run: not at them.
    """
    text = TEXTS[name]()
    gc.freeze()
    try:
        assert min(longest_wait(text) for _ in range(5)) < 0.050
    finally:
        gc.unfreeze()


def longest_wait(text: str) -> float:
    """Return the longest processor time of the parser during which a second thread did not run.

    The parser's processor time excludes the time that the machine spends on other processes.
    """
    longest, ended = 0.0, threading.Event()
    parser = time.pthread_getcpuclockid(threading.get_ident())

    def watch() -> None:
        nonlocal longest
        last = time.clock_gettime(parser)
        while not ended.wait(0.001):
            now = time.clock_gettime(parser)
            longest, last = max(longest, now - last), now

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        parse_json(text)
    except JsonError:
        pass
    finally:
        ended.set()
        thread.join()
    return longest
