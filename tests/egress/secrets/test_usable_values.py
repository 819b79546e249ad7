"""The check of usable values, compared with the injector and the scanner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasmrt.capabilities import CredentialLocation, CredentialMapping, HttpCapability
from wasmrt.core.errors import SecretError
from wasmrt.core.url import parse_url
from wasmrt.egress.gateway import CredentialInjector, HttpFailure
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.secrets import Secret, check_usable

HOST = "api.example.com"
PLACES = {
    "a bearer token or header": CredentialLocation.bearer(),
    "a basic login": CredentialLocation.basic("robot"),
    "a query parameter": CredentialLocation.query_param("key"),
    "a place in a URL's path": CredentialLocation.url_path("token"),
}


class OneSecret:
    def __init__(self, value: str) -> None:
        self._value = value

    def get(self, name: str) -> Secret:
        return Secret(self._value)

    def renewed(self, name: str) -> None:
        return None

    def hint_to_set(self, name: str) -> str:
        return f"set {name}"


def takes(location: CredentialLocation, value: str) -> bool:
    mapping = CredentialMapping(secret_name="it", location=location, host_patterns=(HOST,))
    url = parse_url(f"https://{HOST}/v1/{{token}}")
    injector = CredentialInjector(HttpCapability(allowlist=(), credentials=(mapping,)), url)
    try:
        injector.place(injector.fetch(OneSecret(value)), ())
    except HttpFailure as failure:
        assert failure.code == "credential-unusable"
        return False
    return True


VALUES = [
    "plain-token-1",
    "two words in it",
    " blank-first",
    "blank-last ",
    "line\nbreak-in-it",
    "ends-in-a-line\n",
    "tab\tin-it",
    "nul\x00in-it",
    "delete\x7fin-it",
    "héllo-wörld",
    "../up-and-away",
    "dots..inside",
    "some/./where",
    "héllo/../wörld\n",
]


@pytest.mark.parametrize("value", VALUES)
def test_every_reported_place_and_no_other_accepts_the_value(value: str) -> None:
    told = check_usable("it", Secret(value))
    assert [place for place in PLACES if told is None or place in told] == [
        place for place, location in PLACES.items() if takes(location, value)
    ]


@given(st.text(st.sampled_from("aZ9 ./\\\t\n\x00\x7f\x80é\u3000%~"), min_size=6, max_size=12))
def test_no_reported_place_refuses_the_value(value: str) -> None:
    told = check_usable("it", Secret(value))
    for place, location in PLACES.items():
        assert takes(location, value) == (told is None or place in told)


@pytest.mark.parametrize("value", ["x", "12345", "äöüßé"])
def test_a_value_that_cannot_be_recognised_in_a_response_is_refused_with_the_rule(value: str) -> None:
    assert LeakDetector().scanner({"it": value}).unwatched == ("it",)
    with pytest.raises(SecretError, match="fewer than 6 characters") as caught:
        check_usable("it", Secret(value))
    assert value == "x" or value not in str(caught.value)


@pytest.mark.parametrize("value", ["123456", "      ", "äöüßéè", "\n\n\n\n\n\n"])
def test_the_shortest_allowed_value_is_recognised(value: str) -> None:
    check_usable("it", Secret(value))
    assert LeakDetector().scanner({"it": value}).scan(value)


def test_an_invalid_character_is_located_but_not_shown() -> None:
    told = check_usable("it", Secret("abcdefgh\u2603ijkl"))
    assert told is not None and "character 9 is outside ASCII" in told
    assert "\u2603" not in told and "abc" not in told
