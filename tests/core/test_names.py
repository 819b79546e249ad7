"""Each kind of name has a rule, and a misspelled name gets a suggestion."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasmrt.core.errors import InvalidNameError
from wasmrt.core.names import (
    check_installed_name,
    check_prepared_name,
    check_project_name,
    did_you_mean,
    fold_name,
    installed_name,
    is_alias,
    is_invoked_name,
    is_offered_name,
    is_secret_name,
    offered_name,
)

ODD = ["", ".", "..", "../up", "a/b", "a\\b", "a.b", "Echo", "-rf", "_x", "a b", "a\n", "a\x00", "é", "ａ", "a" * 65]


@pytest.mark.parametrize("name", ODD)
def test_names_that_could_be_a_path_an_option_or_a_lookalike_are_refused(name: str) -> None:
    with pytest.raises(InvalidNameError) as caught:
        check_installed_name(name)
    assert "lower-case letters" in (caught.value.hint or "")
    assert caught.value.message.isprintable()


@given(st.text(max_size=80))
def test_an_accepted_name_is_safe_as_a_file_name(text: str) -> None:
    try:
        name = check_installed_name(text)
    except InvalidNameError:
        return
    assert name == text == Path(name).name
    assert name.isascii() and name == name.lower() and len(name) <= 64


@given(st.text(max_size=150))
def test_every_text_has_a_similar_valid_tool_name(text: str) -> None:
    assert check_installed_name(installed_name(text))


@pytest.mark.parametrize("name", ["", "a" * 65, "a/b", "a\\b", ".hidden", "a\nb", "a\x1bb", 7, None, b"a"])
def test_an_unprintable_name_or_a_path_is_refused_by_prepare(name: object) -> None:
    with pytest.raises(InvalidNameError):
        check_prepared_name(name)


@pytest.mark.parametrize("name", ["echo", "My tool", "Wörter", "a.b", "a" * 64])
def test_a_program_may_give_a_prepared_tool_any_printable_name(name: str) -> None:
    assert check_prepared_name(name) == name


@given(st.text(max_size=60) | st.from_regex(r"[a-z-]{1,45}", fullmatch=True))
def test_every_project_name_is_a_valid_tool_name_and_identifier(text: str) -> None:
    try:
        name = check_project_name(text)
    except InvalidNameError:
        return
    assert check_installed_name(name)
    assert name.replace("-", "_").isidentifier()


@given(st.text(max_size=150) | st.from_regex(r"[a-z-]{1,64}\.[a-z-]{1,64}", fullmatch=True))
def test_every_offered_name_is_accepted_by_all_providers(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", offered_name(name))
    if is_offered_name(name) and name == name.strip("-"):
        assert offered_name(name) == name


def test_long_names_with_different_endings_stay_different() -> None:
    names = [f"{'a' * 64}.{'b' * 63}{end}" for end in "xyz"]
    assert len({offered_name(name) for name in names}) == 3


def test_names_that_models_confuse_have_the_same_folded_name() -> None:
    assert fold_name("Read-File") == fold_name("read_file") == fold_name("READ_FILE")
    assert fold_name("readfile") != fold_name("read_file")
    assert fold_name("\u0435\u0441\u04bb\u043e") == fold_name("\uff25CHO") == fold_name("echo")
    assert fold_name("\u00e9cho") != fold_name("echo")


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (is_alias, ["search", "_a", "A.b-c", "a" * 64], ["", "-a", ".a", "a b", "a/b", "a\n", "a" * 65, "é"]),
        (is_invoked_name, ["search", "a/b:c", "!" * 256], ["", "a b", "a\n", "é", "a" * 257]),
        (is_secret_name, ["token", "a.b-c", "_", "a" * 128], ["", ".a", "a-", "Token", "a b", "a\n", "a" * 129, "a~b"]),
        (is_offered_name, ["search", "A_b-C", "a" * 64], ["", "a.b", "a b", "a\n", "a" * 65, "é"]),
    ],
)
def test_each_rule_accepts_and_rejects_the_boundary_cases(rule, good, bad) -> None:  # type: ignore[no-untyped-def]
    assert [name for name in good if not rule(name)] == []
    assert [name for name in bad if rule(name)] == []


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("instal", ["list", "install"], "install"),
        ("Install", ["install"], "install"),
        ("rde", ["red", "blue"], "red"),
        ("vault", ["auto"], None),
        ("env", ["environment", "file"], "environment"),
        ("en", ["environment", "enclave"], None),
        ("vault", ["environment", "file"], None),
        ("", ["file"], None),
        (7, ["7"], None),
        ("x" * 10_000, ["x" * 64], "x" * 64),
    ],
)
def test_a_misspelled_name_gets_the_intended_suggestion(word: object, known: list[str], meant: str | None) -> None:
    assert did_you_mean(word, known) == meant


def test_at_most_two_hundred_names_are_compared() -> None:
    def endless():  # type: ignore[no-untyped-def]
        for number in range(200):
            yield f"n{number}"
        raise AssertionError("it goes on")

    assert did_you_mean("qqqq", endless()) is None
