"""The web server over real connections: responses, limits and shutdown."""

from __future__ import annotations

import asyncio
import http.client
import logging
import threading
from collections.abc import AsyncGenerator
from contextlib import ExitStack

import pytest

from tests.interop.web.served import hello, read_all, read_response, served
from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.web import Request, Response, WebBounds, WebServer, plain


def test_requests_on_one_connection_are_answered_in_order() -> None:
    with served() as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        for number in range(3):
            client.request("POST", f"/a/{number}?x=%41", body=b"12345")
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (200, f"POST /a/{number}?x=%41 5\n".encode())
        client.close()


def test_pipelined_requests_are_answered_in_order() -> None:
    with served() as server:
        both = server.head("GET /1 HTTP/1.1") + server.head("POST /2 HTTP/1.1", "Content-Length: 3") + b"abc"
        answers = server.raw(both + server.head("GET /3 HTTP/1.1", "Connection: close"))
        assert [answers.index(text) for text in (b"GET /1? 0", b"POST /2? 3", b"GET /3? 0")] == sorted(
            answers.index(text) for text in (b"GET /1? 0", b"POST /2? 3", b"GET /3? 0")
        )


def test_a_chunked_body_is_complete_and_ends_the_connection() -> None:
    with served() as server:
        head = server.head("POST / HTTP/1.1", "Transfer-Encoding: chunked")
        answer = server.raw(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" + server.head("GET /smuggled HTTP/1.1"))
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"POST /? 5" in answer
        assert b"connection: close" in answer


def test_the_path_is_not_normalized() -> None:
    with served() as server:
        for path in ("/a/../b", "//a", "/%2e%2e/a", "/a;b", "/a%00b", "/a\\b"):
            assert f"GET {path}? 0".encode() in server.ask(f"GET {path} HTTP/1.1")


def test_expect_100_continue_is_answered_unless_the_body_is_too_long() -> None:
    with served(bounds=WebBounds(body_bytes=10)) as server:
        with server.connect() as sock:
            sock.sendall(server.head("POST / HTTP/1.1", "Content-Length: 3", "Expect: 100-continue"))
            expected = b"HTTP/1.1 100 \r\n\r\n"
            assert sock.recv(len(expected)) == expected
            sock.sendall(b"abc")
            assert b"POST /? 3" in read_response(sock)
        refused = server.raw(server.head("POST / HTTP/1.1", "Content-Length: 11", "Expect: 100-continue"))
        assert refused.startswith(b"HTTP/1.1 413 ")


def test_head_and_no_content_have_no_body() -> None:
    async def answer(request: Request) -> Response:
        return plain(200, "text") if request.path == "/" else Response(status=204, body=b"dropped")

    with served(answer) as server:
        for line in ("HEAD / HTTP/1.1", "GET /none HTTP/1.1"):
            head, _, body = server.ask(line).partition(b"\r\n\r\n")
            assert (body, b"HTTP/1.1 " in head) == (b"", True)
        assert b"content-length: 5" in server.ask("HEAD / HTTP/1.1")


def test_a_stream_is_sent_piece_by_piece() -> None:
    went_on = threading.Event()

    async def events() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        await asyncio.to_thread(went_on.wait, 20)
        yield b"data: 2\n\n"

    async def stream(request: Request) -> Response:
        return Response(headers=(("content-type", "text/event-stream"),), body=events())

    with served(stream) as server, server.connect() as sock:
        sock.sendall(server.head("GET / HTTP/1.1", "Connection: close"))
        first = b""
        while b"data: 1" not in first:
            first += sock.recv(1024)
        went_on.set()
        assert b"data: 2" in read_all(sock)


def test_a_disconnected_client_cancels_its_handler_and_stream() -> None:
    begun, ended = threading.Event(), []
    over = threading.Event()

    async def wait(request: Request) -> Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("handler")
            over.set()
            raise
        return plain(200)

    async def events() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b": still here\n\n"
                begun.set()
                await asyncio.sleep(0)
        finally:
            ended.append("stream")
            over.set()

    async def answer(request: Request) -> Response:
        return await wait(request) if request.path == "/wait" else Response(body=events())

    with served(answer) as server:
        for path in ("/wait", "/stream"):
            begun.clear()
            over.clear()
            with server.connect() as sock:
                sock.sendall(server.head(f"GET {path} HTTP/1.1"))
                assert begun.wait(20)
            assert over.wait(20)
    assert ended == ["handler", "stream"]


def test_a_failed_handler_is_a_500_without_details(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: Request) -> Response:
        if request.path == "/header":
            return Response(headers=(("x-a", "1\r\nx-b: 2"),))
        if request.path == "/framing":
            return Response(headers=(("Connection", "keep-alive"),))
        raise ValueError("hunter2")

    with served(fail) as server, caplog.at_level(logging.DEBUG, "wasmrt.interop.web"):
        for path in ("/", "/header", "/framing"):
            answer = server.ask(f"GET {path}?token=swordfish HTTP/1.1")
            assert answer.startswith(b"HTTP/1.1 500 ")
            assert b"hunter2" not in answer and b"x-b" not in answer
    assert "hunter2" not in caplog.text and "swordfish" not in caplog.text
    assert "ValueError" in caplog.text


def test_a_failed_stream_is_cut_off() -> None:
    async def broken() -> AsyncGenerator[bytes, None]:
        yield b"half"
        raise ValueError("hunter2")

    async def answer(request: Request) -> Response:
        return Response(body=broken())

    with served(answer) as server:
        assert not server.ask().endswith(b"0\r\n\r\n")


def test_responses_have_protective_headers_by_default() -> None:
    async def answer(request: Request) -> Response:
        own = (("Content-Security-Policy", "default-src 'self'"),) if request.path == "/own" else ()
        return plain(200, headers=own)

    with served(answer) as server:
        head = server.ask().partition(b"\r\n\r\n")[0].decode().lower()
        for line in (
            "content-security-policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: same-origin",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ):
            assert line in head.split("\r\n")
        assert server.ask("GET /own HTTP/1.1").lower().count(b"content-security-policy") == 1
        assert b"nosniff" in server.raw(b"nonsense\r\n\r\n")  # also on refusals


def test_the_gate_refuses_before_the_body_is_read() -> None:
    async def never(request: Request) -> Response:
        raise AssertionError

    async def gate(request: Request) -> Response:
        return plain(401)

    with served(never, gate=gate) as server:
        assert server.status(server.head("POST / HTTP/1.1", "Content-Length: 1000000")) == 401
        with server.connect() as sock:  # a request without a body leaves the connection usable
            for _ in range(2):
                sock.sendall(server.head())
                assert read_response(sock).startswith(b"HTTP/1.1 401 ")


def test_slow_and_silent_clients_are_disconnected() -> None:
    bounds = WebBounds(idle_seconds=0.2, head_seconds=0.2, body_seconds=0.2)
    with served(bounds=bounds) as server:
        assert server.raw(b"") == b""
        assert server.status(b"GET / HT") == 408
        assert server.status(server.head("POST / HTTP/1.1", "Content-Length: 5") + b"abc") == 408


def test_a_client_that_does_not_read_is_disconnected() -> None:
    async def big(request: Request) -> Response:
        return Response(body=bytes(64 * 1024 * 1024))

    with served(big, bounds=WebBounds(write_seconds=0.2)) as server, server.connect() as sock:
        sock.sendall(server.head())
        while server.tasks():  # read nothing until the server disconnects
            pass
        assert len(read_all(sock)) < 64 * 1024 * 1024


def test_excess_connections_are_refused_until_others_end() -> None:
    with served(bounds=WebBounds(connections=2)) as server:
        kept = [server.connect() for _ in range(2)]
        for sock in kept:
            sock.sendall(server.head())
            assert read_response(sock).startswith(b"HTTP/1.1 200 ")
        assert server.raw(b"").startswith(b"HTTP/1.1 503 ")
        for sock in kept:
            sock.close()
        while server.tasks():
            pass
        assert server.ask().startswith(b"HTTP/1.1 200 ")


def test_connections_are_limited_per_client() -> None:
    with served(bounds=WebBounds(connections_per_client=1)) as server, server.connect() as sock:
        sock.sendall(server.head())
        read_response(sock)
        assert server.raw(b"").startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHos", b"GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n"])
def test_silent_slow_and_refused_connections_do_not_keep_others_out(sent: bytes) -> None:
    with served(bounds=WebBounds(connections=4, connections_per_client=3)) as server, ExitStack() as silent:
        kept = silent.enter_context(server.connect())
        kept.sendall(server.head())
        read_response(kept)
        for _ in range(12):
            silent.enter_context(server.connect()).sendall(sent)
        for _ in range(3):
            assert server.ask().startswith(b"HTTP/1.1 200 ")
        kept.sendall(server.head())
        assert read_response(kept).startswith(b"HTTP/1.1 200 "), "a connection with an admitted request stays"


def test_closing_waits_for_responses_and_then_cancels_them() -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def answer(request: Request) -> Response:
        begun.set()
        await asyncio.to_thread(go_on.wait, 20) if request.path == "/short" else await asyncio.Event().wait()
        return plain(200, "done")

    for path, expected in (("/short", b"done"), ("/long", b"")):
        begun.clear()
        with served(answer) as server:
            sock = server.connect()
            sock.sendall(server.head(f"GET {path} HTTP/1.1"))
            assert begun.wait(20)
            closing = asyncio.run_coroutine_threadsafe(server.server.close(20 if expected else 0.1), server.loop)
            go_on.set()
            assert expected in read_all(sock)
            closing.result(20)
            sock.close()


def test_used_ports_and_public_hosts_are_refused() -> None:
    async def start(port: int) -> None:
        async with WebServer(hello, port=port):
            pass

    with served() as server, pytest.raises(ConfigurationError, match="cannot listen at"):
        asyncio.run(start(server.port))
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.com"):
        with pytest.raises(ConfigurationError):
            WebServer(hello, host=host)
    with pytest.raises(ConfigurationError, match="needs the origin"):
        WebServer(hello, host="0.0.0.0", unsafe_beyond_loopback=True)
    for origin in ("example.com", "https://a/b", "https://user@a", "ftp://a", "https://a:99999", "null", "*"):
        with pytest.raises(ConfigurationError, match="is not an origin"):
            WebServer(hello, origins=[origin])
    with pytest.raises(ConfigurationError, match="limit"):
        WebBounds(connections=0)


def test_ipv6_loopback_is_supported() -> None:
    async def start() -> str:
        async with WebServer(hello, host="::1") as server:
            return server.url

    try:
        url = asyncio.run(start())
    except ConfigurationError:
        pytest.skip("no IPv6 here")
    assert url.startswith("http://[::1]:")
