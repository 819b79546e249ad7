"""A component cannot send a second request in the first, nor one for another host, even if a server is lenient."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from wasmrt.testing import FakeResolver

from wasmrt.core.errors import ToolError

from .live import ANSWERS, API, Live, component, live_web

SMUGGLED = "GET /api/smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_web(tmp_path_factory.mktemp("live"), FakeResolver(ANSWERS)) as live:
        yield live


def header(name: str, value: str) -> tuple[str, str, str, bytes]:
    return "POST", "/api/x", json.dumps({name: value}), b"body"


def path(text: str) -> tuple[str, str, str, bytes]:
    return "GET", text, "{}", b""


def body(data: str) -> tuple[str, str, str, bytes]:
    return "POST", "/api/x", "{}", data.encode()


# Method, path, headers and body of the guest's request.
REQUESTS: dict[str, tuple[str, str, str, bytes]] = {
    "a line break in a value": header("X-A", f"1\r\n\r\n{SMUGGLED}"),
    "a bare LF in a value": header("X-A", f"1\n\n{SMUGGLED}"),
    "a bare CR in a value": header("X-A", f"1\r\r{SMUGGLED}"),
    "a NUL in a value": header("X-A", f"1\0{SMUGGLED}"),
    "a folded value": header("X-A", "1\r\n Transfer-Encoding: chunked"),
    "a next line character in a value": header("X-A", f"1\u0085{SMUGGLED}"),
    "a line separator in a value": header("X-A", "1\u2028Host: evil.example"),
    "characters whose low byte is a line break": header("X-A", "1\u010d\u010aHost: evil.example"),
    "a line break in a name": header("X-A: 1\r\nHost", "evil.example"),
    "a colon in a name": header("X-A: 1, Host", "evil.example"),
    "a space after a name": header("Transfer-Encoding ", "chunked"),
    "a tab before a name": header("\tTransfer-Encoding", "chunked"),
    "an empty name": header("", "chunked"),
    "an underscore for the hyphen": header("Transfer_Encoding", "chunked"),
    "a coding": header("Transfer-Encoding", "chunked"),
    "a coding with a vertical tab": header("Transfer-Encoding", "\x0bchunked"),
    "a second length": header("Content-Length", "0"),
    "an equal length with a sign": header("Content-Length", "+4"),
    "a list of lengths": header("Content-Length", "4, 4"),
    "another host": header("Host", "evil.example"),
    "another host in capitals": header("HOST", "evil.example"),
    "another forwarded host": header("X-Forwarded-Host", "evil.example"),
    "a forwarding": header("Forwarded", "host=evil.example"),
    "a connection header that names the host": header("Connection", "Host"),
    "an upgrade": header("Upgrade", "h2c"),
    "settings of HTTP/2": header("HTTP2-Settings", "AAMAAABkAAQAAP__"),
    "an expectation": header("Expect", "100-continue"),
    "a pseudo header": header(":authority", "evil.example"),
    "headers that are not an object": ("POST", "/api/x", json.dumps([f"X-A: 1\r\n\r\n{SMUGGLED}"]), b"body"),
    "one header twice": ("POST", "/api/x", '{"Content-Length": "4", "content-length": "0"}', b"body"),
    "a line break in the path": path(f"/api/x HTTP/1.1\r\n\r\n{SMUGGLED}"),
    "a bare LF in the path": path("/api/x\nHost: evil.example"),
    "a space and a version in the path": path("/api/x HTTP/1.1"),
    "a tab in the path": path("/api/x\tHTTP/1.1"),
    "a NUL in the path": path("/api/x\0"),
    "a fragment": path("/api/x#\r\n"),
    "an absolute target in the path": path("/api/http://evil.example/"),
    "two slashes first": path("//evil.example/api/"),
    "a wide character that becomes a line break": path("/api/x\u010d\u010aHost:evil.example"),
    "a line break in the query": path(f"/api/x?a=1\r\n\r\n{SMUGGLED}"),
    "a method with a target": ("GET /api/y HTTP/1.1\r\nX-A:", "/api/x", "{}", b""),
    "a method of a proxy": ("CONNECT", "/api/x", "{}", b""),
    "a method in lower case": ("get", "/api/x", "{}", b""),
    "a request in the body": body(SMUGGLED),
    "the end of chunks and a request in the body": body(f"0\r\n\r\n{SMUGGLED}"),
    "a body with GET": ("GET", "/api/x", "{}", f"0\r\n\r\n{SMUGGLED}".encode()),
}  # fmt: skip
SENT = {"an absolute target in the path", "a method in lower case", "a request in the body",
        "the end of chunks and a request in the body", "a body with GET", "a line separator in a value",
        "characters whose low byte is a line break"}  # fmt: skip
"""Requests that are valid, and sent as one request."""


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_with_a_request_in_it_is_refused_or_sent_as_one(live: Live, case: str) -> None:
    live.clear()
    method, target, headers, data = REQUESTS[case]
    guest = component(method, headers, f"https://{API}:{live.api.port}{target}", data)
    prepared = live.prepare("smuggler", guest)
    if case in SENT:
        prepared.execute("{}", user="eve")
    else:
        with pytest.raises(ToolError):
            prepared.execute("{}", user="eve")
    live.ask(live.url(f"https://{API}:{{api}}/api/mine"))
    targets = [request.target for request in live.api.requests]
    assert targets == ([target] if case in SENT else []) + ["/api/mine"]
    for request in live.api.requests:
        assert request.header("Host") == f"{API}:{live.api.port}"
        assert request.header("Transfer-Encoding") is None
        assert re.search(rb"\r(?!\n)|(?<!\r)\n|[\0\t]", request.head) is None
        assert int(request.header("Content-Length") or 0) == len(request.body)
