"""Connections between calls: their number, their reuse, and failing, slow or early servers."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import pytest
from wasmrt.testing import FakeCall, FakeResolver, ReceivedRequest, ServerConnection, http_response

import wasmrt.egress.gateway._connection as connection_file
import wasmrt.egress.gateway._pools as pools_file
from tests.runtime.call.conftest import until
from wasmrt.capabilities import Capabilities, EndpointPattern
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpRequest, NetworkConfig
from wasmrt.egress.gateway._client import Client
from wasmrt.egress.gateway._connection import BoundedSocket, UnreachableError, dial
from wasmrt.egress.gateway._exchange import ExchangeBudget, WireRequest
from wasmrt.sandbox.component.worlds import FailureKind

from .world import HOST, MakeWorld, World


@pytest.fixture(params=[False, True], ids=["thread", "task"])
def in_task(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def ok(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(b"ok")


def failed(w: World, **request: Any) -> HttpFailure:
    with pytest.raises(HttpFailure) as caught:
        w.get(**request)
    return caught.value


# -- the pool ----------------------------------------------------------------------------------------------------------


def test_a_request_waits_if_all_connections_are_in_use(world: MakeWorld) -> None:
    w = world(ok, max_connections=1)
    first = w.gateway.open(w.call(), HttpRequest("GET", w.url()))
    failure = failed(w, timeout_seconds=0.05)
    assert (failure.code, failure.request_sent) == ("timeout", False)
    bodies: list[bytes] = []
    waiting = threading.Thread(target=lambda: bodies.append(w.get().body))
    waiting.start()
    until(lambda: len(w.resolver.asked) == 3)
    assert first.read_all() == b"ok"
    first.close()
    waiting.join()
    assert bodies == [b"ok"]
    assert w.server.connections == 1


def test_other_hosts_do_not_wait_for_connections_of_a_busy_host(world: MakeWorld) -> None:
    w = world(ok, max_connections=1)
    with w.gateway.open(w.call(), HttpRequest("GET", w.url())):
        other = HttpRequest("GET", w.url(host="other.example.com"))
        assert w.gateway.fetch(w.call(), other).body == b"ok"


def test_the_longest_idle_connection_is_closed_if_there_are_too_many(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools_file, "MAX_IDLE_CONNECTIONS", 1)
    w = world(ok)
    other = HttpRequest("GET", w.url(host="other.example.com"))
    w.get()
    w.gateway.fetch(w.call(), other)  # now there are two, and the first is closed
    w.gateway.fetch(w.call(), other)
    assert w.server.connections == 2
    w.get()
    assert w.server.connections == 3


def test_a_connection_is_not_reused_after_a_long_idle_time(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_file, "KEEPALIVE_SECONDS", 0.0)
    w = world(ok)
    for number in (1, 2):
        assert w.get().body == b"ok"
        assert w.server.connections == number


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_connection_closed_by_its_server_is_replaced(world: MakeWorld, method: str) -> None:
    w = world(ok)
    w.get()
    w.server.drop_connections()
    until(lambda: len(w.server._open) == 0)
    assert w.gateway.fetch(w.call(), HttpRequest(method, w.url())).body == b"ok"
    assert (w.server.connections, len(w.server.requests)) == (2, 2)


def test_a_response_can_be_read_after_the_gateway_is_closed(world: MakeWorld) -> None:
    w = world(ok)
    response = w.gateway.open(w.call(), HttpRequest("GET", w.url()))
    w.gateway.close()
    assert response.read_all() == b"ok"
    until(lambda: len(w.server._open) == 0)  # given back to a closed pool
    response.close()


def test_a_body_can_be_read_only_once(world: MakeWorld) -> None:
    w = world(ok, tls=False)
    client = Client(NetworkConfig())
    budget = ExchangeBudget("http://x", seconds=30, max_response_bytes=100)
    wire = WireRequest("GET", "http", HOST, w.server.port, "/", ((b"Host", HOST.encode()),), None)
    response = client.send(wire, ["127.0.0.1"], budget)
    assert [b"".join(response.body), b"".join(response.body)] == [b"ok", b""]
    client.close()


# -- servers that are early, late or silent ----------------------------------------------------------------------------


@contextmanager
def raw_server(serve: Any, *, backlog: int = 16) -> Iterator[socket.socket]:
    """Return a listening socket; a thread passes its first connection to `serve`."""
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as listener:

        def run() -> None:
            with listener.accept()[0] as accepted:
                serve(accepted)

        thread = threading.Thread(target=run)
        if serve is not None:
            thread.start()
        yield listener
        if serve is not None:
            thread.join()


def gateway_to(*addresses: str, **config: Any) -> EgressGateway:
    return EgressGateway(
        NetworkConfig(
            unsafe_allowed_networks=("127.0.0.0/8",), resolver=FakeResolver({HOST: list(addresses)}), **config
        )
    )


def call_to(port: int) -> FakeCall:
    pattern = EndpointPattern(HOST, ports=(port,), schemes=("https", "http"))
    return FakeCall(Capabilities.none().with_http([pattern]))


def test_a_server_may_respond_before_it_has_read_a_long_request() -> None:
    def refuse(sock: socket.socket) -> None:
        sock.recv(1000)
        sock.sendall(http_response(b"too long", status=413))
        sock.shutdown(socket.SHUT_RDWR)  # later data is answered with a reset

    with raw_server(refuse) as listener, gateway_to("127.0.0.1") as gateway:
        port = listener.getsockname()[1]
        call = call_to(port)
        grant = call.grant.http
        assert grant is not None
        size = 8 * 1024 * 1024
        call.grant = Capabilities.none().with_http(type(grant)(grant.allowlist, max_request_bytes=2 * size))
        answer = gateway.fetch(call, HttpRequest("PUT", f"http://{HOST}:{port}/", (), bytes(size)))
    assert (answer.status, answer.body) == (413, b"too long")


def test_an_unresponsive_address_is_skipped_for_the_next_one(world: MakeWorld) -> None:
    w = world(ok, tls=False)
    port = w.server.port
    with (
        socket.socket() as full,
        ExitStack() as callers,
        gateway_to("127.0.0.2", "127.0.0.1", connect_timeout_seconds=0.2) as gateway,
    ):
        full.bind(("127.0.0.2", port))
        full.listen(0)
        # A connection attempt to a full queue gets no response at all.
        for _ in range(4):
            caller = callers.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.2", port))
        assert gateway.fetch(call_to(port), HttpRequest("GET", f"http://{HOST}:{port}/")).body == b"ok"


def test_a_slow_reader_receives_the_whole_request() -> None:
    class Full:
        """A socket that accepts one byte at a time, and sometimes none."""

        def __init__(self, ready: socket.socket) -> None:
            self.fileno = ready.fileno
            self.taken = b""
            self.turn = 0

        def settimeout(self, seconds: float) -> None:
            pass

        def send(self, data: memoryview) -> int:
            self.turn += 1
            if self.turn % 2:
                raise TimeoutError
            self.taken += bytes(data[:1])
            return 1

    budget = ExchangeBudget("https://x", seconds=30, max_response_bytes=100)
    ready, other = socket.socketpair()
    with ready, other:
        sock = Full(ready)
        BoundedSocket(cast(socket.socket, sock)).send(b"all of it", budget)
    assert (sock.taken, budget.sent) == (b"all of it", 9)


class _NoContext:
    """A TLS context that fails before the handshake."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def wrap_socket(self, sock: socket.socket, **options: Any) -> ssl.SSLSocket:
        raise self._error


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ssl.SSLError("no"), HttpFailure), (ValueError("no"), HttpFailure), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_tls_that_fails_to_start_is_a_failed_handshake(error: BaseException, expected: type[BaseException]) -> None:
    budget = ExchangeBudget("https://x", seconds=30, max_response_bytes=100)
    with raw_server(lambda sock: sock.recv(1)) as listener, pytest.raises(expected) as caught:
        port = listener.getsockname()[1]
        dial("127.0.0.1", port, HOST, cast(ssl.SSLContext, _NoContext(error)), budget, 1.0)
    assert not isinstance(caught.value, HttpFailure) or caught.value.code == "tls"


def test_an_address_without_a_server_is_unreachable() -> None:
    budget = ExchangeBudget("https://x", seconds=30, max_response_bytes=100)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError):
            dial("127.0.0.1", unused.getsockname()[1], HOST, None, budget, 1.0)


# -- requests by the host ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [(("Bad Name", "x"),), (("X-Bad", "a\r\nInjected: yes"),), (("X-Bad", "a\x00b"),)])
def test_an_invalid_header_is_not_sent(world: MakeWorld, headers: tuple[tuple[str, str], ...]) -> None:
    w = world(ok)
    with pytest.raises(HttpFailure) as caught:
        w.gateway.send_own("GET", w.url(), headers, None, timeout_seconds=10)
    assert (caught.value.kind, caught.value.code) == (FailureKind.INPUT, "invalid-request")
    assert not caught.value.request_sent
    assert w.server.requests == []


def test_a_protocol_upgrade_is_refused_even_if_requested(world: MakeWorld) -> None:
    switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
    w = world(lambda request, connection: switch)
    offered = (("Upgrade", "websocket"), ("Connection", "upgrade"))
    with pytest.raises(HttpFailure) as caught:
        w.gateway.send_own("GET", w.url(), offered, None, timeout_seconds=10)
    assert caught.value.code == "protocol"


def test_an_endless_response_to_the_host_is_too_large(world: MakeWorld) -> None:
    w = world(lambda request, connection: http_response(b"x", length=2**30))
    with pytest.raises(HttpFailure) as caught:
        w.gateway.send_own("GET", w.url(), (), None, timeout_seconds=10)
    assert (caught.value.kind, caught.value.code) == (FailureKind.OUTPUT_TOO_LARGE, "response-too-large")
