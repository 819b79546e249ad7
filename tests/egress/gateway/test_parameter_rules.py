"""Parameters as lenient servers read them: as a credential's parameter, or as a different method."""

from __future__ import annotations

import pytest

from wasmrt.capabilities import AllowlistValidator, EndpointPattern
from wasmrt.core.model import Reason
from wasmrt.core.url import parse_url
from wasmrt.egress.gateway._headers import check_method_override, may_be_read_as, query_names


def test_query_parameter_names_are_split_at_both_separators_and_decoded() -> None:
    assert query_names("a=1&b%5B=2;c+d=3&e&&f=x=y") == ["a", "b[", "c d", "e", "", "f"]
    assert query_names(None) == query_names("") == [""]


@pytest.mark.parametrize(
    "written",
    [
        "api_key",
        "API_Key",
        " api_key",
        "api_key\t",
        "+api_key",
        "\n\x0b\x0c\rapi_key",
        "api.key",
        "api key",
        "api_key[]",
        "api_key[x",
        "api[key",
        "api_key\x00",
        "api_key\x00x",
        "\x00api_key",
        "ap\x00i_key",
        "API.KEY[0]",
    ],
)
def test_a_name_that_some_server_reads_as_the_credentials_matches(written: str) -> None:
    assert may_be_read_as(written, "api_key")
    assert may_be_read_as(written, "Api.Key")


@pytest.mark.parametrize("written", ["api_key2", "apikey", "x_api_key", "api_ke", "", "[api_key", "api_key_[x"])
def test_an_unrelated_name_does_not_match(written: str) -> None:
    assert not may_be_read_as(written, "api_key")


def test_only_the_first_bracket_of_a_name_is_read_as_an_underscore() -> None:
    assert may_be_read_as("a[b_c", "a_b_c")
    assert not may_be_read_as("a[b[c", "a_b_c")


URL = "https://api.example.com/v1/things"
FORM = ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
MULTIPART = ("content-type", "Multipart/Form-Data; boundary=x")
JSON = ("Content-Type", "application/json")


def denial(
    query: str = "",
    body: bytes | None = None,
    *headers: tuple[str, str],
    method: str = "POST",
    methods: tuple[str, ...] = ("GET", "POST"),
) -> Reason | None:
    allowlist = AllowlistValidator([EndpointPattern("api.example.com", methods=methods)])
    decision = check_method_override(allowlist, parse_url(URL + query), method, headers, body)
    assert decision is None or not decision.allowed
    return None if decision is None else Reason(decision.reason)


def part(name: bytes) -> bytes:
    return b"--x\r\nContent-Disposition: form-data; " + name + b"\r\n\r\nDELETE\r\n--x--\r\n"


@pytest.mark.parametrize(
    ("query", "body", "headers"),
    [
        ("?_method=DELETE", None, ()),
        ("?a=1;_METHOD=put", None, ()),
        ("?%5Fmethod=DELETE", None, ()),
        ("?.method[]=DELETE", None, ()),
        ("", b"a=1&_method=DELETE", (FORM,)),
        ("", b"a=1&_method=DELETE", ()),
        ("", b"%5Fm%65thod=DELETE", (FORM,)),
        ("", b"_METHOD=DELETE", (JSON, FORM)),
        ("", part(b'name="_method"'), (MULTIPART,)),
        ("", part(b"NAME=_method"), (MULTIPART,)),
        ("", part(b"name*=utf-8''_method"), (MULTIPART,)),
        ("", part(b'filename="x"; name = "_method"'), (MULTIPART,)),
    ],
)
def test_a_parameter_that_may_change_the_method_of_a_post_is_denied(
    query: str, body: bytes | None, headers: tuple[tuple[str, str], ...]
) -> None:
    assert denial(query, body, *headers) is Reason.METHOD_NOT_ALLOWED
    assert denial(query, body, *headers, method="post") is Reason.METHOD_NOT_ALLOWED
    assert denial(query, body, *headers, method="PUT", methods=("PUT",)) is None
    assert denial(query, body, *headers, methods=()) is None  # every method is allowed anyway


@pytest.mark.parametrize("missing", ["GET", "PUT", "PATCH", "DELETE"])
def test_one_method_that_is_not_allowed_suffices_for_a_denial(missing: str) -> None:
    others = tuple(method for method in ("GET", "POST", "PUT", "PATCH", "DELETE") if method != missing)
    assert denial("?_method=x", methods=others) is Reason.METHOD_NOT_ALLOWED


@pytest.mark.parametrize(
    ("query", "body", "headers"),
    [
        ("?method=DELETE", None, ()),
        ("", b'{"_method": "DELETE"}', (JSON,)),
        ("", b"_method=DELETE", (MULTIPART,)),
        ("", part(b'name="_method"'), (FORM,)),
        ("", part(b'name="method"'), (MULTIPART,)),
        ("", b"a=1&b=2", (FORM,)),
        ("", b"", (FORM,)),
    ],
)
def test_a_post_without_such_a_parameter_passes(
    query: str, body: bytes | None, headers: tuple[tuple[str, str], ...]
) -> None:
    assert denial(query, body, *headers) is None
