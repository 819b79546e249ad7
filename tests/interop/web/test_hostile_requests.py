"""Hostile requests of clients and web pages: each is refused on its own connection and has no effect."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.interop.web.served import Served, served
from tests.tiers import examples
from wasmrt.interop.web import Request, Response, WebBounds, plain

SMUGGLING = {
    "a length and chunks": ("Content-Length: 5", "Transfer-Encoding: chunked"),
    "chunks and a length": ("Transfer-Encoding: chunked", "Content-Length: 5"),
    "two lengths": ("Content-Length: 5", "Content-Length: 6"),
    "one length twice": ("Content-Length: 5", "Content-Length: 5"),
    "a list of lengths": ("Content-Length: 5, 5",),
    "a signed length": ("Content-Length: +5",),
    "a negative length": ("Content-Length: -5",),
    "a length in hexadecimal": ("Content-Length: 0x5",),
    "a length with an underscore": ("Content-Length: 1_0",),
    "a length of many digits": ("Content-Length: " + "1" * 5000,),
    "an empty length": ("Content-Length:",),
    "a folded header": ("X-A: 1", " Content-Length: 5"),
    "a folded coding": ("Transfer-Encoding:", "\tchunked"),
    "a space before the colon": ("Content-Length : 5",),
    "a space before the coding's colon": ("Transfer-Encoding : chunked",),
    "two codings": ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    "a coding before chunks": ("Transfer-Encoding: gzip, chunked",),
    "another coding": ("Transfer-Encoding: identity",),
    "a coding with a parameter": ("Transfer-Encoding: chunked;a=b",),
    "a vertical tab": ("Transfer-Encoding: \x0bchunked",),
    "two hosts": ("Host: evil.example",),
    "a NUL": ("X-A: \x00",),
    "a bare CR": ("X-A: 1\rContent-Length: 5",),
    "a bare LF": ("X-A: 1\nContent-Length: 5",),
    "two origins": ("Origin: http://a.example", "Origin: http://b.example"),
    "two cookies": ("Cookie: a=1", "Cookie: b=2"),
    "two authorizations": ("Authorization: Bearer a", "Authorization: Bearer b"),
    "a packed body": ("Content-Encoding: gzip", "Content-Length: 5"),
    "an expectation that nobody knows": ("Expect: 200-ok", "Content-Length: 5"),
}


class Counting:
    """A handler that counts: refused requests must not reach it."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, request: Request) -> Response:
        self.count += 1
        return plain(200)


@pytest.mark.parametrize("headers", SMUGGLING.values(), ids=SMUGGLING.keys())
def test_an_ambiguous_request_is_refused(headers: tuple[str, ...]) -> None:
    handler = Counting()
    with served(handler) as server:
        answer = server.raw(server.head("POST / HTTP/1.1", *headers) + b"0\r\n\r\n" + server.head("GET /2 HTTP/1.1"))
        assert 400 <= int(answer.split(b" ")[1]) < 600
        assert answer.count(b"HTTP/1.1 ") == 1, "what follows is no request"
        assert b"connection: close" in answer
    assert handler.count == 0


@pytest.mark.parametrize(
    "line",
    [
        "GET http://evil.example/ HTTP/1.1",
        "GET evil.example:80 HTTP/1.1",
        "CONNECT evil.example:443 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "GET /#a HTTP/1.1",
        "GET / HTTP/2.0",
        "GET / HTTP/0.9",
        "GET /",
        "GET  / HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /\x80 HTTP/1.1",
        "G(T / HTTP/1.1",
        " GET / HTTP/1.1",
        "",
        "PRI * HTTP/2.0",
        "\x16\x03\x01\x02\x00\x01",
    ],
)
def test_an_invalid_request_line_is_refused(line: str) -> None:
    handler = Counting()
    with served(handler) as server:
        assert 400 <= server.status(server.head(line)) < 600
    assert handler.count == 0


@pytest.mark.parametrize(
    "chunks",
    [
        b"5\r\nabc\r\n0\r\n\r\n",
        b"zz\r\nabc\r\n0\r\n\r\n",
        b"-1\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabcXX0\r\n\r\n",
        b"fffffffffffffffffffffffff\r\n",
        b"3;" + b"a" * 100_000 + b"\r\nabc\r\n0\r\n\r\n",
        b"0\r\nX-Trailer: 1\r\n\r\n",
        b"0\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_malformed_chunks_and_trailers_are_refused(chunks: bytes) -> None:
    handler = Counting()
    with served(handler) as server:
        assert server.status(server.head("POST / HTTP/1.1", "Transfer-Encoding: chunked") + chunks) in (400, 431)
    assert handler.count == 0


def test_a_rebound_host_name_is_refused() -> None:
    handler = Counting()
    with served(handler) as server:
        port = server.port
        for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", f"localhost.:{port}",
                     "127.0.0.1:1", f"127.0.0.1:{port}@evil.example", f"0.0.0.0:{port}", f"2130706433:{port}",
                     f"[::ffff:127.0.0.1]:{port}", ""):  # fmt: skip
            assert int(server.ask(host=host or " ").split(b" ")[1]) in (400, 421), host
        assert server.status(b"GET / HTTP/1.1\r\n\r\n") == 400
        assert server.status(b"GET / HTTP/1.0\r\n\r\n") == 400
        assert handler.count == 0
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}"):
            assert server.ask(host=host).startswith(b"HTTP/1.1 200 ")


def test_requests_from_other_origins_are_refused() -> None:
    handler = Counting()
    with served(handler) as server:
        port = server.port
        for origin in ("http://evil.example", "null", "", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}",
                       "http://127.0.0.1", f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}.evil.example",
                       f"http://localhost:{port} http://evil.example", "file://"):  # fmt: skip
            for line in ("GET / HTTP/1.1", "POST / HTTP/1.1", "OPTIONS / HTTP/1.1"):
                assert b"HTTP/1.1 403 " in server.ask(line, f"Origin: {origin}"), origin
        assert handler.count == 0
        assert server.ask("POST / HTTP/1.1", f"Origin: http://localhost:{port}").startswith(b"HTTP/1.1 200 ")


def test_only_the_operators_additional_origin_is_accepted() -> None:
    with served(origins=["https://tools.example", "http://other.example:8080"]) as server:
        for host, origin in (("tools.example", "https://tools.example"), ("other.example:8080", "")):
            headers = [f"Origin: {origin}"] if origin else []
            assert server.ask("GET / HTTP/1.1", *headers, host=host).startswith(b"HTTP/1.1 200 ")
        for host in ("tools.example:443", "other.example", "evil.example"):
            assert server.ask(host=host).startswith(b"HTTP/1.1 421 ")


def test_oversized_heads_and_bodies_are_refused_while_they_arrive() -> None:
    handler = Counting()
    with served(handler, bounds=WebBounds(head_bytes=4096, headers=10, body_bytes=1000)) as server:
        assert server.status(server.head("GET / HTTP/1.1", "X-A: " + "a" * 5000)) == 431
        assert server.status(b"GET /" + b"a" * 100_000) == 431
        assert server.status(server.head("GET / HTTP/1.1", *(f"X-{n}: 1" for n in range(11)))) == 431
        assert server.status(server.head("POST / HTTP/1.1", "Content-Length: 1001") + bytes(1001)) == 413
        chunk = b"200\r\n" + bytes(0x200) + b"\r\n"
        assert server.status(server.head("POST / HTTP/1.1", "Transfer-Encoding: chunked") + chunk * 10_000) == 413
    assert handler.count == 0


def test_a_huge_body_is_refused_by_its_declared_length() -> None:
    with served() as server:
        assert server.status(server.head("POST / HTTP/1.1", "Content-Length: 99999999999")) == 413


def test_a_client_that_sends_too_far_ahead_is_disconnected() -> None:
    async def wait(request: Request) -> Response:
        await asyncio.Event().wait()
        return plain(200)

    with served(wait) as server:
        assert server.raw(server.head() + b"GET / HTTP/1.1\r\n" * 100_000) == b""


def test_bytes_sent_ahead_of_the_response_count_too() -> None:
    async def let_it_send(request: Request) -> None:
        for _ in range(1000):  # let the loop receive everything that the connection accepts
            await asyncio.sleep(0)

    async def wait(request: Request) -> Response:
        await asyncio.Event().wait()
        return plain(200)

    with served(wait, gate=let_it_send) as server:
        assert server.raw(server.head() + b"GET / HTTP/1.1\r\n" * 20_000) == b""


def test_a_handler_that_ignores_its_cancellation_ends_the_connection() -> None:
    async def stay(request: Request) -> Response:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return plain(200)

    with served(stay) as server:
        answers = server.raw(server.head() + b"GET / HTTP/1.1\r\n" * 100_000)
    assert answers.count(b"HTTP/1.1 ") <= 1


@pytest.fixture(scope="module")
def one_server() -> Iterator[Served]:
    with served() as server:
        yield server


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(
        st.sampled_from(
            [b"GET / HTTP/1.1", b"POST /a HTTP/1.1", b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"Host: x",
             b"Content-Length: 3", b"Transfer-Encoding: chunked", b"Upgrade: h2c", b"Connection: close", b"abc",
             b"0\r\n\r\n", b"3\r\nabc\r\n", b"\x00", b"\xff"]
        ),
        max_size=12,
    )
)  # fmt: skip
def test_arbitrary_bytes_do_not_affect_the_next_client(one_server: Served, pieces: list[bytes]) -> None:
    with one_server.connect() as sock:
        sock.sendall(b"".join(pieces))
    assert one_server.ask().startswith(b"HTTP/1.1 200 ")
