"""Streamed responses: each piece is returned at once, within the same bounds, and scanned first."""

from __future__ import annotations

import gzip
import threading
import zlib

import pytest
from wasmrt.testing import FakeCall, ReceivedRequest, ServerConnection, http_response

from wasmrt.capabilities import CredentialLocation, CredentialMapping
from wasmrt.core.model import Reason
from wasmrt.egress.gateway import HttpFailure, HttpRequest, Response
from wasmrt.egress.leaks import Action, LeakDetector
from wasmrt.sandbox.component.worlds import FailureKind

from .world import HOST, MakeWorld, World

SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
EVENTS = tuple(f'data: {{"event": {number}}}\n\n'.encode() for number in range(3))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Turns:
    """A server that sends an event, and the next one after the test confirms that the last one was read."""

    def __init__(self, *events: bytes, head: bytes = HEAD + b"Transfer-Encoding: chunked\r\n\r\n") -> None:
        self.events = events
        self.head = head
        self.was_read = threading.Semaphore(0)

    def __call__(self, request: ReceivedRequest, connection: ServerConnection) -> bytes | None:
        connection.send(self.head)
        for event in self.events:
            connection.send(chunk(event) if b"chunked" in self.head else event)
            while not self.was_read.acquire(timeout=0.05):
                if connection.closing.is_set():
                    return None
        return b"0\r\n\r\n" if b"chunked" in self.head else b""


def opened(w: World, call: FakeCall | None = None, path: str = "/") -> Response:
    return w.gateway.open(call or w.call(), HttpRequest("GET", w.url(path)))


def credentialed(w: World, **http: object) -> FakeCall:
    mapping = CredentialMapping(
        secret_name="token", location=CredentialLocation.bearer(), host_patterns=(HOST,)
    )  # fmt: skip
    return w.call(mapping, secrets={"token": SECRET}, **http)  # type: ignore[arg-type]


@pytest.mark.parametrize("credential", [False, True])
def test_an_event_is_read_before_the_server_sends_the_next(world: MakeWorld, credential: bool) -> None:
    script = Turns(*EVENTS)
    w = world(script)
    with opened(w, credentialed(w) if credential else None) as response:
        assert (response.status, response.headers) == (200, (("Content-Type", "text/event-stream"),))
        for event in EVENTS:
            assert response.read() == event
            script.was_read.release()
        assert response.read() == response.read() == b""


def test_a_compressed_event_is_read_before_the_next(world: MakeWorld) -> None:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    packed = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in EVENTS]
    script = Turns(*packed, packer.flush(), head=HEAD + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n")
    w = world(script)
    with opened(w) as response:
        for event in EVENTS:
            assert response.read() == event
            script.was_read.release()
        script.was_read.release()
        assert response.read() == b""


def test_an_echoed_secret_is_redacted_in_any_pieces(world: MakeWorld) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        echo = (request.header("Authorization") or "").encode()
        body = b"you sent\n" + echo + b"\nand now in hex\n" + echo.hex().encode() + b"\nend"
        connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 7):
            connection.send(chunk(body[at : at + 7]))
        return b"0\r\n\r\n"

    w = world(script)
    with opened(w, credentialed(w)) as response:
        body = b"".join(iter(response.read, b""))
    assert body.count(b"[REDACTED:secret:token]") == 2 and body.endswith(b"\nend")
    assert SECRET.encode()[:8] not in body and SECRET.encode().hex()[:16].encode() not in body


def test_a_secret_injected_after_a_response_began_is_redacted_in_it(world: MakeWorld) -> None:
    script = Turns(b"nothing yet\n", f"you sent {SECRET}\n".encode())
    w = world(script)
    call = w.call()
    with opened(w, call) as response:
        assert response.read() == b"nothing yet\n"
        call.watch("token", SECRET)  # as a second request does
        script.was_read.release()
        assert response.read() == b"you sent [REDACTED:secret:token]\n"
        script.was_read.release()


def test_a_closed_response_never_returns_bytes_of_the_next_response(world: MakeWorld) -> None:
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    w = world(lambda r, c: head + chunk(b"number %d\n" % len(w.server.requests)) + chunk(b"end\n") + b"0\r\n\r\n")
    first = opened(w)
    assert first.read() == b"number 1\n"
    first.close()
    with opened(w) as second:
        assert w.server.connections == 1
        assert first.read() == first.read_all() == b""
        assert b"".join(iter(second.read, b"")) == b"number 2\nend\n"


def test_a_connection_is_kept_after_its_response_is_read_completely(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"one line\n" * 9000))
    for _ in range(3):
        with opened(w) as response:
            assert b"".join(iter(response.read, b"")) == b"one line\n" * 9000
    assert w.server.connections == 1


def test_a_connection_with_a_partly_read_response_is_not_reused(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"one line\n" * 9000))
    for _ in range(2):
        with opened(w) as response:
            assert response.read().startswith(b"one line\n")
        response.close()
    assert w.server.connections == 2


def test_a_connection_with_a_short_unread_response_is_reused(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(f"number {len(w.server.requests)}".encode()))
    for _ in range(3):
        with opened(w) as response:
            assert response.status == 200
    assert w.get().body == b"number 4"
    assert w.server.connections == 1


def test_received_bytes_are_charged_during_the_transfer(world: MakeWorld) -> None:
    script = Turns(*EVENTS)
    w = world(script)
    call = w.call()
    with opened(w, call) as response:
        response.read()
        first = call.received_bytes
        script.was_read.release()
        response.read()
        assert 0 < first < call.received_bytes


def test_a_body_whose_length_exceeds_the_limit_is_not_read(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"", length=30_001))
    call = w.call(max_response_bytes=30_000)
    with pytest.raises(HttpFailure) as caught:
        opened(w, call)
    assert (caught.value.kind, caught.value.code) == (FailureKind.OUTPUT_TOO_LARGE, "response-too-large")
    assert call.decisions[-1].reason is Reason.RESPONSE_TOO_LARGE
    assert w.gateway.fetch(call, HttpRequest("HEAD", w.url())).status == 200


def test_a_body_over_the_limit_ends_the_reading_and_is_recorded(world: MakeWorld) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        return chunk(b"one line\n" * 9000) + chunk(b"")

    w = world(script)
    call = w.call(max_response_bytes=30_000)
    with opened(w, call) as response, pytest.raises(HttpFailure) as caught:
        while response.read():
            pass
    assert caught.value.code == "response-too-large"
    assert call.decisions[-1].reason is Reason.RESPONSE_TOO_LARGE


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_the_limit_counts_the_body_alone(world: MakeWorld, coding: str) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        body = b"x" * int(request.target[1:])
        headers = (("X-Filler", "y" * 2000),)
        if coding == "gzip":
            return http_response(gzip.compress(body), headers=(*headers, ("Content-Encoding", "gzip")))
        return http_response(body, headers=headers)

    w = world(script)
    call = w.call(max_response_bytes=1000)
    assert len(w.get("/1000", call).body) == 1000
    with pytest.raises(HttpFailure, match="more than 1000 bytes"):
        w.get("/1001", call)


def test_a_compression_bomb_ends_the_reading_at_the_limit(world: MakeWorld) -> None:
    bomb = gzip.compress(b"\n" * 50_000_000)
    w = world(lambda r, c: http_response(bomb, headers=(("Content-Encoding", "gzip"),)))
    with opened(w, w.call(max_response_bytes=1_000_000)) as response, pytest.raises(HttpFailure) as caught:
        while response.read():
            pass
    assert caught.value.code == "response-too-large"


def test_waiting_for_the_next_piece_ends_with_the_call(world: MakeWorld) -> None:
    script = Turns(*EVENTS)
    w = world(script)
    call = w.call()
    with opened(w, call) as response:
        response.read()
        canceller = threading.Timer(0.05, call.cancelled.set)
        canceller.start()
        with pytest.raises(HttpFailure) as caught:
            response.read()
    canceller.join()
    assert caught.value.code == "cancelled"


@pytest.mark.parametrize(("of_call", "asked", "code"), [(0.3, 30.0, "deadline-exceeded"), (30.0, 0.3, "timeout")])
def test_waiting_for_the_next_piece_ends_at_the_timeout(
    world: MakeWorld, of_call: float, asked: float, code: str
) -> None:
    script = Turns(*EVENTS)
    w = world(script)
    request = HttpRequest("GET", w.url(), timeout_seconds=asked)
    with w.gateway.open(w.call(timeout_seconds=of_call), request) as response, pytest.raises(HttpFailure) as caught:
        while response.read():
            pass
    assert caught.value.code == code


def test_an_incomplete_body_is_reported(world: MakeWorld) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        connection.keep_alive = False
        return http_response(b"one line\nhalf a l", length=100)

    w = world(script)
    with opened(w) as response:
        assert response.read() == b"one line\n"
        with pytest.raises(HttpFailure) as caught:
            response.read()
    assert (caught.value.code, caught.value.request_sent) == ("connection", True)


def test_a_blocking_match_ends_the_reading(world: MakeWorld) -> None:
    token = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
    w = world(lambda r, c: http_response(f"one\n{token}\ntwo\n".encode()))
    call = w.call()
    call.scanner = LeakDetector(overrides={"github-pat": Action.BLOCK}).scanner()
    with opened(w, call) as response, pytest.raises(HttpFailure) as caught:
        while response.read():
            pass
    assert caught.value.code == "response-leak" and call.decisions[-1].reason is Reason.LEAK
