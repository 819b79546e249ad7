"""A secret cannot be printed, pickled or copied by accident."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from wasmrt.core.errors import SecretError
from wasmrt.egress.secrets import Secret, check_user, normalize_secret_name, set_command

VALUE = "correct-" + "horse-battery"


def test_no_way_of_printing_a_secret_shows_it() -> None:
    secret = Secret(VALUE)
    holder = dataclasses.make_dataclass("Holder", ["secret"])(secret)
    shown = [str(secret), repr(secret), f"{secret}", f"{secret:>20}", f"{secret} {secret!r}", repr([secret])]
    shown += [repr(holder), repr({"x": secret})]
    assert all(VALUE not in text and "***" in text for text in shown)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_cannot_be_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Secret(VALUE), protocol)


def test_a_secret_cannot_be_copied_into_a_dict() -> None:
    holder = dataclasses.make_dataclass("Holder", ["secret"])(Secret(VALUE))
    with pytest.raises(TypeError):
        copy.deepcopy(holder)
    with pytest.raises(TypeError):
        dataclasses.asdict(holder)


def test_secrets_compare_by_value_and_are_not_hashable() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret("other")
    assert Secret(VALUE) != VALUE
    with pytest.raises(TypeError):
        hash(Secret(VALUE))


@pytest.mark.parametrize("value", ["", "x" * (64 * 1024 + 1), "\ud800" + VALUE])
def test_an_invalid_value_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(SecretError) as caught:
        Secret(value)
    assert VALUE not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_names_are_lower_case() -> None:
    assert normalize_secret_name("SLACK_Bot-Token") == "slack_bot-token"


@pytest.mark.parametrize("name", ["", "-x", "a.", "a b", "a/b", "ä", "x\n", "a" * 129, ".names", "x~oauth~oauth", "x~"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(SecretError):
        normalize_secret_name(name)


@pytest.mark.parametrize("user", ["", "a\nb", "x" * 257, "\x1b[1m"])
def test_an_invalid_user_is_refused(user: str) -> None:
    with pytest.raises(SecretError):
        check_user(user)


def test_the_set_command_names_the_user_unless_it_is_the_local_one() -> None:
    assert set_command("local", "example_token") == "wasmrt secret set example_token"
    assert set_command("ann", "example_token") == "wasmrt secret set example_token --user ann"
