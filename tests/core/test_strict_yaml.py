"""The strict YAML reader: values, refused parts, bounds and line numbers."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasmrt.core.strict_yaml import YamlProblem, read_yaml


def read(text: str, *, nulls: bool = False) -> tuple[object, list[YamlProblem]]:
    return read_yaml(text, max_bytes=256 * 1024, max_depth=4, nulls=nulls)


def test_scalars_are_strings_unless_null_is_requested() -> None:
    text = "a: no\nb: 1e3\nc: ~\nd: 2024-01-01\ne: 'null'\nf:\ng: 12:30\nh: [0x10, =, .inf]"
    strings = {"a": "no", "b": "1e3", "c": "~", "d": "2024-01-01", "e": "null", "f": "", "g": "12:30"}
    values = {**strings, "h": ["0x10", "=", ".inf"]}
    assert read(text) == (values, [])
    assert read(text, nulls=True) == ({**values, "c": None, "f": None}, [])


def test_an_empty_text_is_an_empty_value() -> None:
    assert read("") == ("", []) and read("# nothing\n", nulls=True) == (None, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x 1", "an anchor"),
        ("a: &x\n  b: c", "an anchor"),
        ("a: *x", "an alias"),
        ("*x : a", "an alias"),
        ("a: !!python/object:os.system x", "a tag"),
        ("a: ! x", "a tag"),
        ("--- !!map\na: b", "a tag"),
        ("%YAML 1.1\n---\na: b", "a directive"),
        ("%TAG ! tag:example.com:\n---\na: b", "a directive"),
        ("%YAML 9" + "9" * 5000 + ".1\n---\na: b", "a number is too large"),
        ("<<: *x", "a merge key"),
        ("a: {b: c}", "a flow mapping"),
        ("a: [b: c]", "a flow mapping"),
        ("a: 1\nb: 2\na: 3", "duplicate key: a"),
        ("a: 1\nA: 2", "A differs from a only in case"),
        ("a: 1\n...\nb: 2", "expected '<document start>'"),
        ("a: 1\n...\nb: 2", "expected '<document start>'"),
        ("? [a]\n: b", "a key that is not a string"),
        ("'': a", "a key that is empty"),
        ('"a\\tb": c', "not printable"),
        ("a" * 129 + ": b", "over 128 characters"),
        ('a: "\\ud800"', "not a character"),
        ('a: "\\UFFFFFFFF"', "a number is too large"),
        ("a: \x07", "character 0x7 is not allowed"),
        ("\ta: b", "cannot start any token"),
        ("a: b: c", "must be in quotes"),
        ("a: [b", "expected ',' or ']'"),
        ('a: "b', "unexpected end of stream"),
        ("a: |\n  b\n c", "expected <block end>"),
        ("a:\n  b:\n    c:\n      d:\n        e: f", "over 4 levels deep"),
        ("- - - - - a", "over 4 levels deep"),
        ("[" * 5 + "]" * 5, "over 4 levels deep"),
        ("x" * (256 * 1024 + 1), "more than 262,144 bytes"),
    ],
)
def test_a_hostile_or_ambiguous_part_is_refused(text: str, problem: str) -> None:
    _, problems = read(text)
    assert any(problem in each.problem for each in problems), problems


def test_all_problems_are_reported_with_their_lines() -> None:
    assert [line for line, _ in read("a: &x 1\nb: 2\nc: !t 3\nB: 4\n")[1]] == [1, 3, 4]
    value, problems = read("a: &x 1\nb: [\n")
    assert value is None and [line for line, _ in problems] == [1, 3]
    assert len(read("".join(f"a{number}: &x 1\n" for number in range(100)))[1]) == 32


def test_escaped_surrogate_pairs_are_joined_as_in_json() -> None:
    assert read('a: "\\ud83d\\ude00"') == ({"a": "\U0001f600"}, [])


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        "[\n" * 100_000,
        "- " * 100_000,
        "? " * 100_000,
        "{a: " * 60_000,
        "".join(f"a{number}: [*a{number - 1}, *a{number - 1}]\n" for number in range(8_000)),
        "".join(f"k{number}:\n" for number in range(30_000)),
        "a: '" + "''" * 100_000,
        "a: " + "b " * 100_000,
    ],
    ids=range(9),
)
def test_a_hostile_text_takes_bounded_time(text: str) -> None:
    start = time.process_time()
    read(text)
    assert time.process_time() - start < 10


@given(st.text(st.sampled_from("ab:- \n\t\"'[]{}&*!|>#,\\.%?<~U0\x00\u2028"), max_size=120))
def test_arbitrary_text_raises_no_error(text: str) -> None:
    value, problems = read(text)
    assert all(line >= 1 for line, _ in problems)
    assert value is not None or problems


def test_pyyaml_is_not_imported_before_the_first_document() -> None:
    check = "import sys, wasmrt, wasmrt.core.strict_yaml; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
