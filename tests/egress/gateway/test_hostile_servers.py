"""Servers that drip, flood, lie, disconnect and redirect. Each causes a typed failure in time and within the limits."""

from __future__ import annotations

import dataclasses
import gzip
import socket
import threading
import tracemalloc

import pytest
from wasmrt.testing import FakeCall, ReceivedRequest, ServerConnection, http_response

from wasmrt.capabilities import Capabilities, EndpointPattern
from wasmrt.core.model import Reason
from wasmrt.egress.gateway import HttpFailure, HttpRequest
from wasmrt.sandbox.component.worlds import FailureKind

from .world import HOST, MakeWorld, World


@pytest.fixture(params=[False, True], ids=["thread", "task"])
def in_task(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


MIB = 1024 * 1024


def fail(w: World, call: FakeCall | None = None, **request: object) -> HttpFailure:
    with pytest.raises(HttpFailure) as caught:
        w.get(call=call, **request)
    return caught.value


def drip(piece: bytes, head: bytes = b""):  # type: ignore[no-untyped-def]
    """Send `head`, then `piece` every few milliseconds, endlessly."""

    def script(request: ReceivedRequest, connection: ServerConnection) -> None:
        connection.keep_alive = False
        alive = connection.send(head) if head else True
        while alive and not connection.closing.wait(0.005):
            alive = connection.send(piece)

    return script


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "script",
    [
        drip(b"x", HEAD),
        drip(b"1\r\nx\r\n", CHUNKED),
        drip(b"x", b"HTTP/1.1 200 OK\r\nX-Long: "),
        drip(b"X: y\r\n", b"HTTP/1.1 200 OK\r\n"),
        drip(b"HTTP/1.1 100 Continue\r\n\r\n"),
        drip(b"", HEAD),
    ],
    ids=["body", "chunks", "a header's value", "headers", "continues", "nothing"],
)
def test_a_dripping_server_is_stopped_by_the_timeout_of_the_exchange(world: MakeWorld, script) -> None:  # type: ignore[no-untyped-def]
    # The server never ends and never pauses for long: only a bound on the whole exchange stops it.
    failure = fail(world(script), timeout_seconds=0.3)
    assert (failure.kind, failure.code) == (FailureKind.OPERATION_FAILED, "timeout")
    assert failure.request_sent


def test_the_calls_deadline_is_distinguished_from_a_slow_server(world: MakeWorld) -> None:
    w = world(drip(b"x", HEAD))
    assert fail(w, w.call(timeout_seconds=0.2), timeout_seconds=60.0).code == "deadline-exceeded"
    assert fail(w, w.call(timeout_seconds=60), timeout_seconds=0.2).code == "timeout"


def test_a_guests_timeout_never_exceeds_the_grants_timeout(world: MakeWorld) -> None:
    w = world(drip(b"x", HEAD))
    assert fail(w, w.call(timeout_seconds=30), timeout_seconds=0.0).code == "timeout"
    grant = w.call().grant
    assert grant.http is not None
    call = FakeCall(grant.with_http(dataclasses.replace(grant.http, timeout_seconds=0.2)))
    # With the guest's five minutes, the call's own deadline would end the request.
    assert fail(w, call, timeout_seconds=300.0).code == "timeout"


def test_a_cancelled_call_stops_waiting_for_a_silent_server(world: MakeWorld) -> None:
    asked = threading.Event()

    def silent(request: ReceivedRequest, connection: ServerConnection) -> None:
        asked.set()
        connection.closing.wait()

    w = world(silent)
    call = w.call(timeout_seconds=3600)
    failures: list[HttpFailure] = []
    thread = threading.Thread(target=lambda: failures.append(fail(w, call)))
    thread.start()
    assert asked.wait(10)
    call.cancelled.set()
    thread.join()  # only the cancellation can end this wait
    assert failures[0].code == "cancelled"


def test_a_server_without_a_tls_handshake_is_stopped_in_time(world: MakeWorld) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        w = world(drip(b""))
        port = mute.getsockname()[1]
        call = FakeCall(Capabilities.none().with_http([EndpointPattern(HOST, ports=(port,))]), timeout_seconds=0.3)
        with pytest.raises(HttpFailure) as caught:
            w.gateway.fetch(call, HttpRequest("GET", f"https://{HOST}:{port}/"))
    assert caught.value.code == "deadline-exceeded"
    assert not caught.value.request_sent


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    "script",
    [
        drip(b"x" * 65536, b"HTTP/1.1 200 OK\r\n\r\n"),
        drip(b"10000\r\n" + b"x" * 65536 + b"\r\n", CHUNKED),
        drip(b"1\r\nx\r\n" * 5000, CHUNKED),
        drip(b"HTTP/1.1 103 Early Hints\r\nLink: " + b"x" * 60000 + b"\r\n\r\n"),
    ],
    ids=["until closed", "chunks", "tiny chunks", "early hints"],
)
def test_an_endless_response_is_too_large(world: MakeWorld, script) -> None:  # type: ignore[no-untyped-def]
    w = world(script)
    call = w.call(max_response_bytes=MIB)
    failure = fail(w, call)
    assert (failure.kind, failure.code) == (FailureKind.OUTPUT_TOO_LARGE, "response-too-large")
    assert call.received_bytes < 1.2 * MIB
    assert call.decisions[-1].reason is Reason.RESPONSE_TOO_LARGE


@pytest.mark.parametrize(
    "head",
    [
        b"".join(b"X-%d: y\r\n" % n for n in range(200)),
        b"".join(b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(90)),
        b"X: " + b"y" * 200_000 + b"\r\n",
    ],
    ids=["many", "much", "long"],
)
def test_too_many_headers_are_refused(world: MakeWorld, head: bytes) -> None:
    w = world(lambda r, c: b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 0\r\n\r\n")
    assert fail(w).kind in (FailureKind.OUTPUT_TOO_LARGE, FailureKind.OPERATION_FAILED)


@pytest.mark.ci("slow")
def test_a_compression_bomb_stops_at_the_limit(world: MakeWorld) -> None:
    bomb = gzip.compress(bytes(200 * MIB))
    w = world(lambda r, c: http_response(bomb, headers=(("Content-Encoding", "gzip"),)))
    call = w.call(max_response_bytes=2 * MIB)
    tracemalloc.start()
    try:
        failure = fail(w, call)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert failure.kind is FailureKind.OUTPUT_TOO_LARGE
    assert peak < 16 * MIB


@pytest.mark.parametrize("coding", ["br", "deflate", "zstd", "compress", "gzip, gzip", "aes128gcm", "gzip;q=1"])
def test_a_response_in_an_unsupported_coding_is_refused(world: MakeWorld, coding: str) -> None:
    w = world(lambda r, c: http_response(b"whatever", headers=(("Content-Encoding", coding),)))
    assert fail(w).code == "content-coding"


@pytest.mark.parametrize(
    ("coding", "body"),
    [("gzip", b"not gzip"), ("gzip", gzip.compress(b"x" * 1000)[:-4]), ("gzip", gzip.compress(b"x") + b"trailing")],
    ids=["another format", "cut short", "more behind it"],
)
def test_an_invalid_gzip_body_is_an_error(world: MakeWorld, coding: str, body: bytes) -> None:
    w = world(lambda r, c: http_response(body, headers=(("Content-Encoding", coding),)))
    assert fail(w).code == "content-coding"


@pytest.mark.parametrize(
    "answer",
    [
        http_response(b"short", length=50),
        http_response(b"long" * 100_000, length=400_001),
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"",
    ],
)
def test_a_response_that_is_not_http_is_a_failed_operation(world: MakeWorld, answer: bytes) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        connection.keep_alive = False
        return answer

    w = world(script)
    failure = fail(w)
    assert failure.kind is FailureKind.OPERATION_FAILED
    assert failure.request_sent


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("size", [4, 100_000, 3 * MIB])
def test_bytes_after_a_response_never_become_the_next_response(world: MakeWorld, size: int, tls: bool) -> None:
    smuggled = http_response(b"smuggled")
    w = world(lambda r, c: http_response(b"r" * size) + (smuggled if r.target == "/1" else b""), tls=tls)
    for path in ("/1", "/2", "/1", "/2"):
        assert w.get(path).body == b"r" * size


@pytest.mark.parametrize("size", [4, 100_000])
@pytest.mark.parametrize(
    ("first_line", "header", "connections"),
    [("HTTP/1.1", "X: close", 1), ("HTTP/1.1", "Connection: foo, Close", 2), ("HTTP/1.0", "X: y", 2)],
)
def test_a_connection_is_kept_if_both_sides_want_it(
    world: MakeWorld, size: int, first_line: str, header: str, connections: int
) -> None:
    head = f"{first_line} 200 OK\r\nContent-Length: {size}\r\n{header}\r\n\r\n".encode()
    w = world(lambda r, c: head + b"x" * size)
    for _ in range(2):
        assert len(w.get().body) == size
    assert w.server.connections == connections


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
@pytest.mark.parametrize(
    "location",
    [
        "/elsewhere",
        f"https://{HOST}/other",
        "https://other.example.com/",
        "http://api.example.com/",
        "https://169.254.169.254/latest/",
        "https://127.0.0.1/",
        "/",
    ],
)
def test_redirects_are_not_followed(world: MakeWorld, status: int, location: str) -> None:
    body = b"" if status == 304 else b"moved"
    w = world(lambda r, c: http_response(body, status=status, headers=(("Location", location),)))
    answer = w.get()
    assert (answer.status, answer.headers, answer.body) == (status, (("Location", location),), body)
    assert len(w.server.requests) == 1


def test_a_redirect_is_checked_like_any_request_if_the_guest_follows_it(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(status=302, headers=(("Location", "https://10.0.0.1/"),)))
    call = w.call(hosts=(HOST, "10.0.0.1"))
    target = dict(w.get(call=call).headers)["Location"]
    with pytest.raises(HttpFailure) as caught:
        w.gateway.fetch(call, HttpRequest("GET", target.replace("10.0.0.1", f"10.0.0.1:{w.server.port}")))
    assert caught.value.code == "address-not-allowed"


def test_a_plain_http_server_on_an_https_port_is_a_failed_handshake(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"x"))
    with socket.create_server(("127.0.0.1", 0)) as plain:
        port = plain.getsockname()[1]

        def refuse() -> None:
            with plain.accept()[0] as sock:
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                sock.recv(65536)

        thread = threading.Thread(target=refuse)
        thread.start()
        call = FakeCall(Capabilities.none().with_http([EndpointPattern(HOST, ports=(port,))]))
        with pytest.raises(HttpFailure) as caught:
            w.gateway.fetch(call, HttpRequest("GET", f"https://{HOST}:{port}/"))
        thread.join(10)
    assert (caught.value.code, caught.value.request_sent) == ("tls", False)
    assert caught.value.message == f"the TLS handshake with https://{HOST}:{port} failed"


def test_a_closed_port_is_a_failed_operation(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"x"), answers={HOST: ["127.0.0.2", "127.0.0.3"]})
    failure = fail(w)
    assert (failure.kind, failure.code, failure.request_sent) == (FailureKind.OPERATION_FAILED, "connect", False)


def test_the_next_checked_address_is_tried_if_one_is_unreachable(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"alive"), answers={HOST: ["127.0.0.2", "127.0.0.1"]})
    assert w.get().body == b"alive"
    assert w.get().body == b"alive"
    assert w.server.connections == 1
