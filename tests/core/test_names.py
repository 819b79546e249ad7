"""Each kind of name has one rule, and a near miss is answered with the name that was meant."""

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
    folded,
    installed_name,
    is_alias,
    is_invoked_name,
    is_offered_name,
    is_secret_name,
    offered_name,
)

ODD = ["", ".", "..", "../up", "a/b", "a\\b", "a.b", "Echo", "-rf", "_x", "a b", "a\n", "a\x00", "é", "ａ", "a" * 65]


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_could_be_a_path_an_option_or_a_lookalike_is_refused(name: str) -> None:
    with pytest.raises(InvalidNameError) as caught:
        check_installed_name(name)
    assert "lower-case letters" in (caught.value.hint or "")
    assert caught.value.message.isprintable()


@given(st.text(max_size=80))
def test_a_name_is_either_refused_or_safe_as_a_file_name(text: str) -> None:
    try:
        name = check_installed_name(text)
    except InvalidNameError:
        return
    assert name == text == Path(name).name
    assert name.isascii() and name == name.lower() and len(name) <= 64


@given(st.text(max_size=150))
def test_any_text_has_a_name_near_it_that_an_installed_tool_can_have(text: str) -> None:
    assert check_installed_name(installed_name(text))


@pytest.mark.parametrize("name", ["", "a" * 65, "a/b", "a\\b", ".hidden", "a\nb", "a\x1bb", 7, None, b"a"])
def test_a_name_that_is_no_text_to_print_or_could_be_a_path_prepares_nothing(name: object) -> None:
    with pytest.raises(InvalidNameError):
        check_prepared_name(name)


@pytest.mark.parametrize("name", ["echo", "My tool", "Wörter", "a.b", "a" * 64])
def test_a_program_may_call_a_tool_what_it_likes(name: str) -> None:
    assert check_prepared_name(name) == name


@given(st.text(max_size=60) | st.from_regex(r"[a-z-]{1,45}", fullmatch=True))
def test_every_project_name_is_an_installed_name_and_makes_an_identifier(text: str) -> None:
    try:
        name = check_project_name(text)
    except InvalidNameError:
        return
    assert check_installed_name(name)
    assert name.replace("-", "_").isidentifier()


@given(st.text(max_size=150) | st.from_regex(r"[a-z-]{1,64}\.[a-z-]{1,64}", fullmatch=True))
def test_any_name_is_offered_as_every_provider_takes_it(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", offered_name(name))
    if is_offered_name(name) and name == name.strip("-"):
        assert offered_name(name) == name


def test_long_names_that_differ_at_their_end_stay_different() -> None:
    names = [f"{'a' * 64}.{'b' * 63}{end}" for end in "xyz"]
    assert len({offered_name(name) for name in names}) == 3


def test_names_that_a_model_confuses_are_folded_into_one() -> None:
    assert folded("Read-File") == folded("read_file") == folded("READ_FILE")
    assert folded("readfile") != folded("read_file")


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (is_alias, ["search", "_a", "A.b-c", "a" * 64], ["", "-a", ".a", "a b", "a/b", "a\n", "a" * 65, "é"]),
        (is_invoked_name, ["search", "a/b:c", "!" * 256], ["", "a b", "a\n", "é", "a" * 257]),
        (is_secret_name, ["token", "a.b-c", "_", "a" * 128], ["", ".a", "a-", "Token", "a b", "a\n", "a" * 129, "a~b"]),
        (is_offered_name, ["search", "A_b-C", "a" * 64], ["", "a.b", "a b", "a\n", "a" * 65, "é"]),
    ],
)
def test_the_rules_draw_their_lines(rule, good, bad) -> None:  # type: ignore[no-untyped-def]
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
def test_the_name_that_was_meant_is_guessed(word: object, known: list[str], meant: str | None) -> None:
    assert did_you_mean(word, known) == meant


def test_a_guess_looks_at_no_more_than_two_hundred_names() -> None:
    def endless():  # type: ignore[no-untyped-def]
        for number in range(200):
            yield f"n{number}"
        raise AssertionError("it goes on")

    assert did_you_mean("qqqq", endless()) is None
