"""The front matter of a SKILL.md: accepted values, rejected syntax, and reports of all mistakes at once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasmrt.agent.builtin.skills import SkillError, read_skill, single_file
from wasmrt.agent.builtin.skills._front import MAX_FRONT_BYTES, MAX_FRONT_LINES, read_front, split_front

WHOLE = """---
name: release-notes
description: >
  Writes release notes. Use it
  when a version is cut.
version: 1.0
license: "MIT: with \\u00e9"  # a comment
allowed-tools: read_file write_file
metadata:
  author: 'it''s ann'
activation:
  keywords: [release, "change, log"]
  tags:
  - notes
---
# Notes

Do it.
"""


def skill(text: str, name: str = "release-notes") -> object:
    return read_skill(single_file(text.encode()), name)


def test_all_front_matter_values_are_strings() -> None:
    read = read_skill(single_file(WHOLE.encode()), "release-notes")
    assert (read.name, read.version, read.license) == ("release-notes", "1.0", "MIT: with \u00e9")
    assert read.description == "Writes release notes. Use it when a version is cut."
    assert read.keywords == ("release", "change, log", "notes") and read.allowed_tools == ("read_file", "write_file")
    assert read.text == "# Notes\n\nDo it."


def test_yaml_booleans_and_numbers_stay_strings() -> None:
    values, wrong, _ = read_front("a: no\nb: 1e3\nc: ~\nd: 2024-01-01\ne: 0x10\nf: null")
    assert (list(values.values()), wrong) == (["no", "1e3", "~", "2024-01-01", "0x10", "null"], [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x 1", "an anchor"),
        ("a: *x", "an alias"),
        ("a: !!python/object:os.system x", "a tag"),
        ("<<: *x", "a merge key"),
        ("a: {b: c}", "a flow mapping"),
        ("a: 1\na: 2", "duplicate key"),
        ("a: 1\nA: 2", "only in case"),
        ("a: 1\n... \nb: 2", "expected '<document start>'"),
        ("\ta: b", "cannot start any token"),
        ("a: [b", "expected ',' or ']'"),
        ('a: "b', "unexpected end of stream"),
        ('a: "\\ud800"', "an escape"),
        ("a: |\n  b\n c", "expected <block end>"),
        ("\n".join(f"{' ' * n}a:" for n in range(10)), "8 levels deep"),
        ("? [a]\n: b", "a key that is not a string"),
        ("a", "must be a mapping"),
    ],
)
def test_dangerous_yaml_features_are_rejected_by_name(text: str, problem: str) -> None:
    _, problems, _ = read_front(text)
    assert any(problem in each.problem for each in problems), problems


@pytest.mark.parametrize("items", ["[b, [c]]", "\n  - b: c", "\n" + "  - b\n" * 257])
def test_a_list_may_only_contain_a_bounded_number_of_strings(items: str) -> None:
    with pytest.raises(SkillError) as caught:
        skill(f"---\nname: release-notes\ndescription: x\nallowed-tools: {items}\n---\nx")
    assert [place for place, _ in caught.value.problems] == ["allowed-tools"]


def test_keys_of_other_agents_and_plain_values_outside_yaml_are_notes() -> None:
    rows = {
        "model: sonnet": "model: is not known and has no effect",
        "argument-hint: [issue] [label]": "argument-hint: is not valid YAML and was read as text; write it in quotes",
        "licence: MIT": "licence: is not known and has no effect; did you mean license?",
        "hooks:\n  Stop:\n    - hooks:\n        - type: command": "hooks: is not known and has no effect",
        "activation:\n  mode: auto": "activation.mode: is not known and has no effect",
        "tools: *": "tools: is not valid YAML and was read as text; write it in quotes",
    }
    for line, note in rows.items():
        assert note in skill(f"---\nname: release-notes\ndescription: x\n{line}\n---\nx").notes, line
    value = "Use when: the user asks.\n  Not for: notes about `x`"
    read = skill(f"---\nname: release-notes\ndescription: {value}\nversion: @1\n---\nx")
    assert (read.description, read.version) == ("Use when: the user asks. Not for: notes about `x`", "@1")
    # An anchor, alias or tag stays an error next to a plain value.
    for refused in ("&a x", "*a", "!!python/name:os x"):
        with pytest.raises(SkillError, match="is not allowed"):
            skill(f"---\nname: release-notes\ndescription: {refused}\nlicense: a: b\n---\nx")


def test_a_skill_of_the_size_of_published_ones_is_read() -> None:
    text = b"---\nname: release-notes\ndescription: " + b"d" * 1100 + b"\n---\n" + b"x" * 100_000
    assert len(read_skill(single_file(text)).text) == 100_000


def test_alias_bomb_is_rejected_before_expansion() -> None:
    lines = ["a0: &a0 [lol]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))]
    values, wrong, _ = read_front("\n".join(lines))
    assert len(wrong) == 10 and len(json.dumps(values)) < 500


def test_oversized_front_matter_is_rejected_without_parsing() -> None:
    values, problems, _ = read_front("a: " + "x" * MAX_FRONT_BYTES)
    assert values is None and "more than 16,384 bytes" in problems[0].problem
    assert read_front("\n" * MAX_FRONT_LINES)[0] is None
    assert split_front("---\n" + "a: b\n" * 10_000 + "---\n") is None


def test_all_front_matter_mistakes_are_reported_with_their_lines() -> None:
    with pytest.raises(SkillError) as caught:
        skill("---\nnam: x\na: &b\ndescription: [x]\nactivation: y\n---\n")
    places = [place for place, _ in caught.value.problems]
    assert places == ["line 3", "name", "description", "activation", "text", "nam", "a"]
    assert "did you mean name?" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# no front matter", "no complete front matter"),
        ("---\nname: release-notes\n", "no complete front matter"),
        (WHOLE.replace("release-notes", "other"), "expected release-notes"),
        (WHOLE.replace("release-notes", "../x"), "is not a valid skill name"),
        (WHOLE.replace("# Notes\n\nDo it.", ""), "is empty"),
        (WHOLE.replace("Writes", "W" * 2100), "up to 2048"),
    ],
)
def test_invalid_skills_are_rejected(text: str, said: str) -> None:
    with pytest.raises(SkillError, match=said):
        skill(text)


def test_invalid_utf8_is_rejected_with_its_line() -> None:
    with pytest.raises(SkillError, match="line 2"):
        read_skill(single_file(b"---\n\xff\n---\nx"))


PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=40)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True), PLAIN, max_size=6))
def test_quoted_strings_round_trip(values: dict[str, str]) -> None:
    text = "\n".join(f"{key}: {json.dumps(value)}" for key, value in values.items())
    assert read_front(text) == (values, [], [])
    listed = "\n".join(f"{key}: [{json.dumps(value)}, {json.dumps(value)}]" for key, value in values.items())
    assert read_front(listed) == ({key: [value, value] for key, value in values.items()}, [], [])


@given(st.text(st.sampled_from("ab:- \n\t\"'[]{}&*!|>#,\\.\x00\u2028"), max_size=120))
def test_front_matter_reader_accepts_any_text_without_crashing(text: str) -> None:
    values, problems, _ = read_front(text)
    assert values is not None or problems
    assert all(line >= 1 for line, _ in problems)


def test_a_syntax_error_is_reported_without_errors_about_fields() -> None:
    with pytest.raises(SkillError) as caught:
        skill("---\nname: [x\n---\ntext")
    assert [place for place, _ in caught.value.problems] == ["line 2"]
