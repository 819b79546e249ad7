"""Headers, parameters and bodies that a guest may send."""

from __future__ import annotations

import pytest
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from wasmrt.egress.gateway import HttpFailure, HttpRequest
from wasmrt.egress.gateway._codings import ACCEPT_ENCODING
from wasmrt.sandbox.component.worlds import FailureKind

from .world import MakeWorld


def ok(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(b"ok")


def refused(world: MakeWorld, **request: object) -> HttpFailure:
    w = world(ok)
    asked = HttpRequest("POST", w.url(), **request)  # type: ignore[arg-type]
    with pytest.raises(HttpFailure) as caught:
        w.gateway.fetch(w.call(max_request_bytes=2000), asked)
    assert w.server.connections == 0
    assert not caught.value.request_sent
    return caught.value


@pytest.mark.parametrize(
    "header",
    [
        ("Host", "evil.example"),
        ("host", "api.example.com"),
        ("Content-Length", "5"),
        ("Content-Length", "0, 0"),
        ("Content_Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "keep-alive"),
        ("Upgrade", "websocket"),
        ("TE", "trailers"),
        ("Expect", "100-continue"),
        ("Proxy-Authorization", "Basic x"),
        ("X-Forwarded-Host", "evil.example"),
        ("X_Forwarded.Host", "evil.example"),
        ("X-Forwarded-Port", "81"),
        ("X-Forwarded-Prefix", "/admin"),
        ("X-Forwarded-Server", "evil.example"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Uri", "/admin"),
        ("x_forwarded_for", "127.0.0.1"),
        ("X-Original-Host", "evil.example"),
        ("X-Original-Method", "DELETE"),
        ("X-Real-IP", "127.0.0.1"),
        ("True-Client-IP", "127.0.0.1"),
        ("X-Host", "evil.example"),
        ("X-HTTP-Host-Override", "evil.example"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("x_http_method_override", "DELETE"),
        ("X.HTTP.Method", "DELETE"),
        ("X-HTTP-Method", "DELETE"),
        ("X-Method-Override", "DELETE"),
        ("X-Original-URL", "/admin"),
        ("X~Original~URL", "/admin"),
        ("X-Rewrite-URL", "/admin"),
        ("Bad Name", "x"),
        ("", "x"),
        ("X:", "x"),
        ("X-Ünicode", "x"),
        ("X", "a\r\nHost: evil"),
        ("X", "a\nb"),
        ("X", "a\x00b"),
        ("X", "\x7f"),
    ],
)
def test_a_header_for_framing_or_routing_is_refused(world: MakeWorld, header: tuple[str, str]) -> None:
    failure = refused(world, headers=(header,))
    assert (failure.kind, failure.code) == (FailureKind.NETWORK_DENIED, "header-not-allowed")
    assert "evil" not in failure.message


def test_headers_are_bounded_in_number_and_size(world: MakeWorld) -> None:
    assert refused(world, headers=tuple((f"X-{n}", "y") for n in range(129))).code == "header-not-allowed"
    assert refused(world, headers=(("X", "y" * 70_000),)).code == "header-not-allowed"


def test_url_headers_and_body_count_together(world: MakeWorld) -> None:
    failure = refused(world, headers=(("X", "y" * 1000),), body=b"z" * 1000)
    assert (failure.kind, failure.code) == (FailureKind.INPUT, "request-too-large")


def test_other_headers_are_sent_in_order_with_duplicates(world: MakeWorld) -> None:
    w = world(ok)
    headers = (("X-A", "1"), ("x-b", "\t two "), ("X-A", "3"), ("X-Empty", ""), ("X-Text", "grüße"))
    w.gateway.fetch(w.call(), HttpRequest("GET", w.url(), headers))
    sent = [h for h in w.server.requests[0].headers if h[0].lower().startswith("x-")]
    assert sent[:4] == [("X-A", "1"), ("x-b", "two"), ("X-A", "3"), ("X-Empty", "")]
    assert sent[4][1].encode("latin-1").decode() == "grüße"


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get it", "", "GET\r\nX: y", "PROPFIND"])
def test_an_unknown_method_is_refused(world: MakeWorld, method: str) -> None:
    w = world(ok)
    with pytest.raises(HttpFailure) as caught:
        w.gateway.fetch(w.call(), HttpRequest(method, w.url()))
    assert caught.value.code == "method-not-allowed"


def test_a_token_in_the_guests_own_text_does_not_leave(world: MakeWorld) -> None:
    w = world(ok)
    token = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"[:36]
    call = w.call()
    for request in (
        HttpRequest("GET", w.url(f"/?t={token}")),
        HttpRequest("GET", w.url("/?t=" + token.replace("g", "%67"))),
        HttpRequest("GET", w.url(), (("X-T", token),)),
        HttpRequest("GET", w.url(), (("Authorization", f"Bearer {token}"),)),
        HttpRequest("POST", w.url(), body=b"\xff" + token.encode()),
    ):
        with pytest.raises(HttpFailure) as caught:
            w.gateway.fetch(call, request)
        assert caught.value.code == "leak"
    assert token not in repr(call.decisions)
    assert w.server.connections == 0


def test_content_codings_are_decoded_by_the_host_whatever_a_guest_accepts(world: MakeWorld) -> None:
    w = world(ok)
    w.gateway.fetch(w.call(), HttpRequest("GET", w.url(), (("Accept-Encoding", "zstd"),)))
    assert w.server.requests[0].header("Accept-Encoding") == ACCEPT_ENCODING


def test_the_response_to_head_has_the_length_of_the_body(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(length=12345, headers=(("Content-Encoding", "gzip"),)))
    answer = w.gateway.fetch(w.call(), HttpRequest("HEAD", w.url()))
    assert answer.headers == (("Content-Length", "12345"), ("Content-Encoding", "gzip"))
    assert answer.body == b""
    w.gateway.fetch(w.call(), HttpRequest("HEAD", w.url()))
    assert w.server.connections == 1


FORM = (("Content-Type", "application/x-www-form-urlencoded; charset=utf-8"),)
MULTIPART = (("content-type", "multipart/form-data; boundary=b"),)
PART = b'--b\r\nContent-Disposition: form-data; name="_method"\r\n\r\nDELETE\r\n--b--\r\n'
OVERRIDES = [
    ("/?_method=DELETE", (), None),
    ("/?a=1&_METHOD=DELETE", (), None),
    ("/?%5fmethod=DELETE", (), None),
    ("/?a=1;.method=DELETE", (), None),
    ("/", FORM, b"a=1&_method=DELETE"),
    ("/", FORM, b"a=1&%5Fm%65thod=DELETE"),
    ("/", (), b"_method=DELETE"),
    ("/", MULTIPART, PART),
    ("/", MULTIPART, PART.replace(b'"_method"', b"_method")),
    ("/", MULTIPART, PART.replace(b"name=", b"NAME =")),
]


@pytest.mark.parametrize(("path", "headers", "body"), OVERRIDES)
def test_a_parameter_cannot_select_a_method_that_is_not_granted(
    world: MakeWorld, path: str, headers: tuple[tuple[str, str], ...], body: bytes | None
) -> None:
    w = world(ok)
    request = HttpRequest("POST", w.url(path), headers, body)
    call = w.call(methods=("GET", "POST", "PUT"))
    with pytest.raises(HttpFailure) as caught:
        w.gateway.fetch(call, request)
    assert (caught.value.kind, caught.value.code) == (FailureKind.NETWORK_DENIED, "method-not-allowed")
    assert "_method" in caught.value.message and "PATCH" in (caught.value.hint or "")
    assert w.server.connections == 0
    assert w.gateway.fetch(w.call(), request).status == 200  # every method is granted
    assert w.gateway.fetch(call, HttpRequest("PUT", w.url(path), headers, body)).status == 200  # no server overrides it


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/?payment_method=card&method=x", (), None),
        ("/", FORM, b"payment_method=card&q=_method=1"),
        ("/", (("Content-Type", "application/json"),), b'{"pay_method": "100%"}'),
        ("/", MULTIPART, PART.replace(b"_method", b"payment_method")),
    ],
)
def test_other_parameters_with_such_a_name_are_sent(
    world: MakeWorld, path: str, headers: tuple[tuple[str, str], ...], body: bytes | None
) -> None:
    w = world(ok)
    assert w.gateway.fetch(w.call(methods=("POST",)), HttpRequest("POST", w.url(path), headers, body)).status == 200
