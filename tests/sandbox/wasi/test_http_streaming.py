"""A guest reads server-sent events as they arrive, through the real gateway from a real server."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from wasmrt.testing import ReceivedRequest, ScriptedServer, ServerConnection, http_response

from tests.sandbox.wasi.conftest import Guest
from wasmrt.capabilities import Capabilities, EndpointPattern, HttpCapability
from wasmrt.egress.gateway import EgressGateway, NetworkConfig
from wasmrt.sandbox.component import Case, Err, Ok

_T = "http/types#"
HOST = "127.0.0.1"
EVENTS = 3


class Events:
    """A server that answers /events with one event, and sends each further event after a request for /seen?N."""

    def __init__(self) -> None:
        self.seen = [threading.Event() for _ in range(EVENTS)]

    def __call__(self, request: ReceivedRequest, connection: ServerConnection) -> bytes | None:
        if request.target != "/events":
            self.seen[int(request.target.partition("?")[2])].set()
            return http_response(b"good")
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number, seen in enumerate(self.seen):
            connection.send(b"9\r\ndata: %d\n\n\r\n" % number)
            while not seen.wait(0.05):
                if connection.closing.is_set():
                    return None
        return b"0\r\n\r\n"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(Events()) as running:
        yield running


@pytest.fixture
def asking(server: ScriptedServer) -> Iterator[Guest]:
    pattern = EndpointPattern(HOST, ports=(server.port,), schemes=("http",))
    grant = Capabilities.none().with_http(HttpCapability((pattern,)))
    with EgressGateway(NetworkConfig(unsafe_allowed_networks=("127.0.0.0/8",))) as door:
        guest = Guest(grant=grant, http=door)
        yield guest
        guest.services.close()


def ask(guest: Guest, server: ScriptedServer, path: str) -> int:
    """Send a request and return the stream of the response body."""
    request = guest(_T + "[constructor]outgoing-request", guest(_T + "[constructor]fields"))
    guest(_T + "[method]outgoing-request.set-scheme", request, Case("HTTP"))
    guest(_T + "[method]outgoing-request.set-authority", request, f"{HOST}:{server.port}")
    guest(_T + "[method]outgoing-request.set-path-with-query", request, path)
    future = guest("http/outgoing-handler#handle", request, None).value
    response = guest(_T + "[method]future-incoming-response.get", future).value.value
    body = guest(_T + "[method]incoming-response.consume", response).value
    return int(guest(_T + "[method]incoming-body.stream", body).value)


def read(guest: Guest, stream: int) -> Ok | Err:
    answer = guest("io/streams#[method]input-stream.blocking-read", stream, 1000)
    assert isinstance(answer, (Ok, Err))
    return answer


def test_a_guest_receives_each_event_before_the_next_is_sent(asking: Guest, server: ScriptedServer) -> None:
    events = ask(asking, server, "/events")
    for number in range(EVENTS):
        assert read(asking, events) == Ok(b"data: %d\n\n" % number)
        assert read(asking, ask(asking, server, f"/seen?{number}")) == Ok(b"good")
    assert read(asking, events) == Err(Case("closed"))
    assert asking.call.http_requests == 1 + EVENTS


def test_the_connection_is_closed_when_the_call_ends(asking: Guest, server: ScriptedServer) -> None:
    events = ask(asking, server, "/events")
    assert read(asking, events) == Ok(b"data: 0\n\n")
    asking.services.close()
    assert read(asking, events) == Err(Case("closed"))
    for number in range(EVENTS):
        read(asking, ask(asking, server, f"/seen?{number}"))
    assert server.connections == 2
    assert asking.call.http_received_bytes > 0
