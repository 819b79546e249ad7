"""Rules for each header name: which ones a guest may set, which are sent, and which it sees in a response."""

from __future__ import annotations

import pytest

from wasmrt.core.limits import MAX_HEADER_BYTES, MAX_HEADERS
from wasmrt.egress.gateway._headers import (
    find_header_problem,
    header_bytes,
    is_sensitive,
    partial_header,
    remove_headers,
    visible_headers,
    wire_headers,
)


@pytest.mark.parametrize(
    "word",
    [
        "authentic",
        "authorization",
        "oauth2",
        "tokens",
        "secret",
        "credentials",
        "password",
        "cookie2",
        "api-key",
        "apikey",
        "sessionid",
        "csrf",
        "xsrf",
        "auth",
    ],
)
def test_a_header_that_names_a_credential_is_hidden_in_any_spelling(word: str) -> None:
    for name in (f"x-{word}-y", f"X_{word.upper()}.Y", word):
        assert is_sensitive(name), name
        assert visible_headers([(name.encode(), b"value"), (b"X-Other", b"1")]) == (("X-Other", "1"),)
        assert len(visible_headers([(name.encode(), b"value")], credentials=True)) == 1


@pytest.mark.parametrize("way", ["method", "methods", "scheme", "schemes", "type", "types"])
def test_a_header_that_names_a_login_method_is_visible(way: str) -> None:
    assert not is_sensitive(f"X-Auth-{way}")
    assert is_sensitive(f"X-{way}-Auth")
    assert is_sensitive(f"X-Auth-Token-{way}")


@pytest.mark.parametrize("name", ["X-RateLimit-Tokens", "x-rate-limit-session", "X_Rate_Limit_Tokens"])
def test_a_header_with_a_rate_limit_count_is_visible(name: str) -> None:
    assert not is_sensitive(name)


_FRAMING = ["Content-Encoding", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Trailer"]


@pytest.mark.parametrize("name", _FRAMING)
def test_framing_headers_are_hidden(name: str) -> None:
    headers = [(name.encode(), b"1"), (b"X-Other", b"\xfc")]
    assert visible_headers(headers) == (("X-Other", "ü"),)
    of_head = visible_headers(headers, bodyless=True)
    assert (of_head[0][0] == name) is (name in ("Content-Length", "Content-Encoding"))


@pytest.mark.parametrize("name", ["Range", "If-Range", "Request-Range", "request_range"])
def test_a_header_for_a_partial_response_is_found_in_any_spelling(name: str) -> None:
    assert partial_header((("Accept", "x"), (name, "bytes=0-1"))) == name
    assert partial_header((("Accept", "x"),)) is None


def test_headers_are_dropped_in_any_spelling() -> None:
    headers = (("X_Api.Key", "1"), ("Accept", "x"), ("x-api-key", "2"))
    assert remove_headers(headers, ["X-Api-Key"]) == (("Accept", "x"),)


def problem(*headers: tuple[str, str], owned: tuple[str, ...] = (), body_bytes: int = 5) -> str | None:
    return find_header_problem(headers, body_bytes, owned)


def test_headers_are_accepted_up_to_the_limits_of_number_and_size() -> None:
    assert problem(*[("a", "b")] * MAX_HEADERS) is None
    assert problem(*[("a", "b")] * (MAX_HEADERS + 1)) == f"a request may have at most {MAX_HEADERS} headers"
    assert header_bytes([("name", "value"), ("a", "")]) == 9 + 4 + 1 + 4
    assert problem(("n", "v" * (MAX_HEADER_BYTES - 5))) is None
    told = f"the headers of a request may have at most {MAX_HEADER_BYTES} bytes"
    assert problem(("n", "v" * (MAX_HEADER_BYTES - 4))) == told


def test_a_header_name_may_have_any_length_and_all_valid_characters() -> None:
    assert problem(("n" * 256, "v")) is None
    for name in ("", "n" * 257, "a b", "a:", "ä", "a\n"):
        assert problem((name, "v")) == "a header name contains an invalid character", name


@pytest.mark.parametrize("char", ["\0", "\x08", "\n", "\r", "\x1f", "\x7f"])
def test_a_header_value_must_not_have_control_characters_except_tab(char: str) -> None:
    assert (
        problem(("X", f"a{char}b"))
        == problem(("X", f"a{char}"))
        == "the value of the header X contains a control character"
    )
    assert problem(("X", "a\tb ü")) is None


def test_headers_of_the_host_or_of_a_secret_are_refused_with_their_own_message() -> None:
    assert (
        problem(("X_Key", "v"), owned=("x-key",))
        == "the header X_Key is set from a secret and cannot be set by the tool"
    )
    assert problem(("Host", "x")) == "the header Host is set by the host"
    assert problem(("Content-Length", " 5 ")) is None
    assert problem(("Content-Length", "6")) == "the header Content-Length is set by the host"
    assert problem(("Content-Length", "5"), ("Host", "x")) == "the header Host is set by the host"


def on_the_wire(*headers: tuple[str, str], method: str = "GET", body: bytes | None = None) -> list[tuple[bytes, bytes]]:
    return wire_headers(headers, authority="api.example.com", method=method, body=body)


def test_the_hosts_headers_are_sent_first_and_once() -> None:
    sent = on_the_wire(("Accept-Encoding", "br"), ("content_length", "9"), ("X-One", " \ta b\t "), ("X-Two", "ü"))
    names = [name for name, _ in sent]
    assert names == [b"Host", b"Accept-Encoding", b"User-Agent", b"Accept", b"X-One", b"X-Two"]
    assert dict(sent)[b"Host"] == b"api.example.com"
    assert dict(sent)[b"Accept-Encoding"] != b"br"
    assert (dict(sent)[b"X-One"], dict(sent)[b"X-Two"]) == (b"a b", "ü".encode())
    own = on_the_wire(("user_agent", "a tool"), ("ACCEPT", "text/plain"))
    assert [name for name, _ in own] == [b"Host", b"Accept-Encoding", b"user_agent", b"ACCEPT"]


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        ("GET", None, None),
        ("HEAD", b"", None),
        ("OPTIONS", None, None),
        ("GET", b"abc", b"3"),
        ("POST", None, b"0"),
        ("PUT", b"", b"0"),
        ("PATCH", None, b"0"),
        ("DELETE", None, b"0"),
        ("POST", b"abc", b"3"),
    ],
)
def test_content_length_is_sent_if_there_is_or_could_be_content(method: str, body: bytes | None, length: bytes) -> None:
    assert dict(on_the_wire(method=method, body=body)).get(b"Content-Length") == length
