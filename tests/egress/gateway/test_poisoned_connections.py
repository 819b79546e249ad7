"""Responses that desynchronise a kept connection: the next user never reads bytes that another user's server sent."""

from __future__ import annotations

import threading

import pytest
from wasmrt.testing import FakeCall, ReceivedRequest, ServerConnection, http_response

from wasmrt.egress.gateway import HttpFailure, HttpRequest
from wasmrt.egress.secrets import UserSecrets

from .world import MakeWorld, World


@pytest.fixture(params=[False, True], ids=["thread", "task"])
def in_task(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


POISON = http_response(b"poison", headers=(("X-Poison", "1"),))
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n"
LENGTH = OK + b"Content-Length: 4\r\n\r\n"
END = b"0\r\n\r\n"

# Each response is followed by POISON, which a client that reads the framing differently takes as the next response.
RESPONSES: dict[str, tuple[str, bytes]] = {
    "a length and chunks": ("GET", CHUNKED + b"Content-Length: 4\r\n\r\n" + END),
    "chunks and a length of zero": ("GET", CHUNKED + b"Content-Length: 0\r\n\r\n4\r\nbody\r\n" + END),
    "two lengths": ("GET", OK + b"Content-Length: 4\r\nContent-Length: 0\r\n\r\nbody"),
    "one length twice": ("GET", OK + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody"),
    "a list of lengths": ("GET", OK + b"Content-Length: 4, 4\r\n\r\nbody"),
    "a list of different lengths": ("GET", OK + b"Content-Length: 4, 0\r\n\r\nbody"),
    "a signed length": ("GET", OK + b"Content-Length: +4\r\n\r\nbody"),
    "a length in hexadecimal": ("GET", OK + b"Content-Length: 0x4\r\n\r\nbody"),
    "a folded length": ("GET", OK + b"Content-Length:\r\n 4\r\n\r\nbody"),
    "a length folded into two": ("GET", OK + b"Content-Length: 4\r\n 0\r\n\r\nbody"),
    "a length folded into another header": (
        "GET", OK + b"X-A: 1\r\n Content-Length: 400\r\nContent-Length: 4\r\n\r\nbody",
    ),
    "a space before the length's colon": ("GET", OK + b"Content-Length : 4\r\n\r\nbody"),
    "a bare LF after a header": ("GET", OK + b"X-A: 1\nContent-Length: 4\r\n\r\nbody"),
    "bare LFs only": ("GET", b"HTTP/1.1 200 OK\nContent-Length: 4\n\nbody"),
    "a bare CR in a header": ("GET", OK + b"X-A: 1\rContent-Length: 400\r\nContent-Length: 4\r\n\r\nbody"),
    "a NUL in a header": ("GET", OK + b"X-A: \x00\r\nContent-Length: 4\r\n\r\nbody"),
    "a chunk extension": ("GET", CHUNKED + b"\r\n4;a=b\r\nbody\r\n" + END),
    "a chunk extension with a bare LF": ("GET", CHUNKED + b"\r\n4;a\nb\r\nbody\r\n" + END),
    "a chunk extension of 100 KB": ("GET", CHUNKED + b"\r\n4;" + b"a" * 100_000 + b"\r\nbody\r\n" + END),
    "a chunk without its end": ("GET", CHUNKED + b"\r\n4\r\nbodyXX" + END),
    "a signed chunk size": ("GET", CHUNKED + b"\r\n+4\r\nbody\r\n" + END),
    "a chunk size with a prefix": ("GET", CHUNKED + b"\r\n0x4\r\nbody\r\n" + END),
    "a chunk size of 40 digits": ("GET", CHUNKED + b"\r\n" + b"f" * 40 + b"\r\nbody\r\n" + END),
    "trailers": ("GET", CHUNKED + b"\r\n4\r\nbody\r\n0\r\nX-Trailer: 1\r\n\r\n"),
    "trailers with a length": ("GET", CHUNKED + b"\r\n4\r\nbody\r\n0\r\nContent-Length: 400\r\n\r\n"),
    "two codings": ("GET", OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n" + END),
    "a coding before chunks": ("GET", OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n4\r\nbody\r\n" + END),
    "an unknown coding and a length": ("GET", OK + b"Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n\r\nbody"),
    "chunks in HTTP/1.0": (
        "GET", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n" + END,
    ),
    "HTTP/1.0 that keeps the connection": (
        "GET", b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\nConnection: keep-alive\r\n\r\nbody",
    ),
    "HTTP/2.0": ("GET", b"HTTP/2.0 200 OK\r\nContent-Length: 4\r\n\r\nbody"),
    "a length of zero": ("GET", OK + b"Content-Length: 0\r\n\r\n"),
    "a body as announced": ("GET", LENGTH + b"body"),
    "a body in a 204": ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nbody"),
    "chunks in a 204": ("GET", b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n" + END),
    "a body in a 304": ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nbody"),
    "a body for HEAD": ("HEAD", LENGTH + b"body"),
    "chunks for HEAD": ("HEAD", CHUNKED + b"\r\n4\r\nbody\r\n" + END),
    "nothing more than HEAD": ("HEAD", LENGTH),
    "an interim response": ("GET", b"HTTP/1.1 103 Hints\r\nContent-Length: 4\r\n\r\n" + LENGTH + b"body"),
    "an interim response with a body": ("GET", b"HTTP/1.1 100 Go\r\nContent-Length: 4\r\n\r\nbody" + OK + b"\r\n"),
    "a thousand interim responses": ("GET", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000 + LENGTH + b"body"),
    "a switch of protocols": ("GET", b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"),
    "an error without reading the body": ("POST", b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nbody"),
}  # fmt: skip
LATE = ["a body as announced", "a length of zero", "a chunk extension", "a body in a 204", "nothing more than HEAD"]


def own(request: ReceivedRequest) -> bytes:
    """Return the proper response to a request of the other user."""
    return http_response(f"for {request.target}".encode())


def caller(w: World, user: str) -> FakeCall:
    call = w.call()
    return FakeCall(call.grant, user=user, secrets=UserSecrets(w.store, user), timeout_seconds=20.0)


def provoke(w: World, method: str) -> tuple[tuple[str, str], ...]:
    """Send the request of one user, and return the headers of its response, or none if the response was refused."""
    body = b"b" if method == "POST" else None
    try:
        return w.gateway.fetch(caller(w, "eve"), HttpRequest(method, w.url("/eve"), (), body)).headers
    except HttpFailure as failure:
        assert failure.request_sent
        assert "poison" not in failure.message
        return ()


def check_next(w: World) -> None:
    """Check that each of three requests of another user gets its own response."""
    for number in range(3):
        answer = w.gateway.fetch(caller(w, "ann"), HttpRequest("GET", w.url(f"/ann/{number}")))
        assert (answer.status, answer.body) == (200, f"for /ann/{number}".encode())
        assert "x-poison" not in {name.lower() for name, _ in answer.headers}


@pytest.mark.parametrize("case", RESPONSES)
def test_the_rest_of_an_ambiguous_response_is_never_the_next_users_response(world: MakeWorld, case: str) -> None:
    method, answer = RESPONSES[case]
    w = world(lambda r, c: answer + POISON if r.target == "/eve" else own(r))
    headers = provoke(w, method)
    assert not {"x-trailer", "x-poison"} & {name.lower() for name, _ in headers}
    check_next(w)
    assert [request.target for request in w.server.requests[1:]] == ["/ann/0", "/ann/1", "/ann/2"]


@pytest.mark.parametrize("tls", [True, False], ids=["TLS", "plain"])
@pytest.mark.parametrize("case", LATE)
def test_bytes_that_arrive_on_an_idle_connection_close_it(world: MakeWorld, case: str, tls: bool) -> None:
    method, answer = RESPONSES[case]
    read, sent = threading.Event(), threading.Event()

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes | None:
        if request.target != "/eve":
            return own(request)
        connection.send(answer)
        read.wait(10)  # the response has been read, and the connection is idle
        connection.send(POISON)
        sent.set()
        return None

    w = world(script, tls=tls)
    provoke(w, method)
    read.set()
    assert sent.wait(10)
    check_next(w)
    assert w.server.connections == 2


# Responses whose framing is ambiguous: what follows them on the connection may be anything.
AMBIGUOUS = [
    "a length and chunks",
    "chunks and a length of zero",
    "chunks in HTTP/1.0",
    "HTTP/1.0 that keeps the connection",
    "HTTP/2.0",
]


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_a_connection_is_not_kept_after_an_ambiguous_response(world: MakeWorld, case: str) -> None:
    method, answer = RESPONSES[case]
    w = world(lambda r, c: answer if r.target == "/eve" else own(r))
    provoke(w, method)
    check_next(w)
    assert w.server.connections == 2
