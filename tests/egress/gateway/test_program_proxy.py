"""The proxy of a confined program: the requests that it reads, and its responses to errors."""

from __future__ import annotations

import socket
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wasmrt.testing import FakeCall, FakeResolver

from tests.sandbox.isolation.outlet_escapes import hello
from wasmrt.capabilities import Capabilities, RateLimitConfig, read_program_network
from wasmrt.core.errors import ExternalServiceError
from wasmrt.core.limits import MAX_PROXY_HELLO_BYTES
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway import EgressGateway, NetworkConfig
from wasmrt.egress.proxy import ProgramProxy
from wasmrt.egress.proxy._proxy import _MAX_CONNECTIONS
from wasmrt.egress.proxy._request import NotAHelloError, RefusedError, read_hello, read_request
from wasmrt.egress.proxy._tunnel import Tunnel
from wasmrt.egress.rates import RateLimiter

NAMES = st.from_regex(r"[a-z0-9-]{1,30}(\.[a-z0-9-]{1,30}){0,3}", fullmatch=True)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_a_hello_or_invalid_or_incomplete(data: bytes, after: bool) -> None:
    try:
        found = read_hello((b"\x16\x03\x01\x00\x40\x01" if after else b"") + data)
    except NotAHelloError:
        return
    assert found is None or found.server_name == found.server_name.lower()


@given(NAMES, st.integers(1, 80), st.data())
def test_a_hello_is_read_the_same_in_any_pieces(name: str, record: int, data: st.DataObject) -> None:
    whole = hello(name.upper(), record=record)
    assert read_hello(whole) == (name, False)
    assert read_hello(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


def test_an_endless_or_invalid_hello_is_refused() -> None:
    head = b"\x16\x03\x01\x40\x00"
    endless = head + b"\x01\xff\xff\xff" + bytes(16380) + head + bytes(2000)
    with pytest.raises(NotAHelloError, match="too long"):
        read_hello(endless[:MAX_PROXY_HELLO_BYTES])
    with pytest.raises(NotAHelloError, match="not a ClientHello"):
        read_hello(b"\x16\x03\x01\x00\x04\x02\x00\x00\x00")
    with pytest.raises(NotAHelloError, match="an invalid length"):
        read_hello(b"\x16\x03\x01\x00\x00")
    with pytest.raises(NotAHelloError, match="incomplete or invalid"):
        read_hello(b"\x16\x03\x01\x00\x04\x01\x00\x00\x00")
    assert [read_hello(hello("a.example")[:end]) for end in (0, 3, 5, 60)] == [None] * 4


def joined(*parts: bytes) -> tuple[list[Decision], bytes]:
    """Return the decisions of a tunnel to a.example, and the bytes that the host receives, for these parts of input."""
    found: list[Decision] = []
    got: list[bytes] = []

    def read() -> None:
        while part := host.recv(65536):
            got.append(part)
        host.shutdown(socket.SHUT_WR)

    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    (program, client), (host, server) = pairs
    with program, client, host, server, EgressGateway() as gateway:
        for part in parts:
            program.send(part)
        program.shutdown(socket.SHUT_WR)
        reader = threading.Thread(target=read)
        reader.start()
        tunnel = Tunnel("a.example:443", gateway, FakeCall(Capabilities.none()), found.append)  # type: ignore[arg-type]
        tunnel.join(client, server)
        server.close()
        reader.join()
    return found, b"".join(got)


def test_a_hello_in_parts_is_read_completely_before_it_is_relayed() -> None:
    ours, another = hello("a.example"), hello("b.example")
    for cut in (1, 7, len(ours) - 1):
        assert joined(ours[:cut], ours[cut:], b"what follows") == ([], ours + b"what follows")
        (refused,), carried = joined(another[:cut], another[cut:])
        assert "as server name in the ClientHello, got 'b.example'" in refused.rule and carried == b""
        (refused,), carried = joined(ours[:cut])
        assert refused.rule.endswith("no ClientHello was received") and carried == b""


def test_a_hello_that_could_be_for_another_host_is_refused() -> None:
    hidden, other = (bytes((kind >> 8, kind & 255, 0, 0)) for kind in (0xFE0D, 16))
    for first, why in (
        (hello("a.example", extensions=hidden), "encrypted server name"),
        (hello("a.example", extensions=other + other), "a duplicate extension"),
        (hello("a.example", "b.example"), "more than one server name"),
        (hello("a.example", kind=1), "a server name of an unknown kind"),
        (hello(), "as server name in the ClientHello, got none"),
        (b"GET / HTTP/1.1\r\n\r\n", "the data is not TLS"),
    ):
        (refused,), carried = joined(first)
        assert why in refused.rule and refused.reason is Reason.HOST_NOT_ALLOWED and carried == b""
    assert joined(hello("a.example", extensions=other)) == ([], hello("a.example", extensions=other))


@pytest.mark.parametrize("bound", ["MAX_PROXY_TUNNEL_BYTES", "PROXY_TUNNEL_SECONDS"])
def test_a_tunnel_over_its_byte_limit_is_closed_and_recorded(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(f"wasmrt.egress.proxy._tunnel.{bound}", 0)
    (refused,), carried = joined(hello("a.example"), b"what follows")
    assert refused.reason is Reason.RESPONSE_TOO_LARGE and carried == b""


def test_an_expired_time_limit_without_any_input_ends_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.egress.proxy._tunnel.PROXY_HEAD_SECONDS", 0)
    (refused,), carried = joined(hello("a.example"))
    assert refused.rule.endswith("no ClientHello was received in time") and carried == b""
    here, there = socket.socketpair()
    with here, there, pytest.raises(RefusedError) as caught:
        here.sendall(b"GET http://a.example/ HTTP/1.1\r\n\r\n")
        read_request(there, "credential", 0)
    assert caught.value.status == 408


@contextmanager
def proxy(*entries: object, rates: RateLimiter | None = None, **network: object) -> Iterator[tuple[ProgramProxy, int]]:
    """A proxy on loopback, as in the network of a program."""
    config = NetworkConfig(unsafe_allowed_networks=("127.0.0.1/32",), **network)  # type: ignore[arg-type]
    with EgressGateway(config) as gateway, socket.create_server(("127.0.0.1", 0)) as listener:
        made = ProgramProxy(
            read_program_network(list(entries)), gateway, user="ann", name="test", rates=rates or RateLimiter()
        )
        thread = threading.Thread(target=made.serve, args=(listener,))
        thread.start()
        try:
            yield made, listener.getsockname()[1]
        finally:
            made.close()
            thread.join()


def ask(made: ProgramProxy, port: int, line: str, *headers: str, body: bytes = b"", cut: bool = False) -> bytes:
    login = b64encode(f"wasmrt:{made.credential}".encode()).decode()
    head = "\r\n".join((line, f"Proxy-Authorization: Basic {login}", *headers, "", ""))
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(head.encode()[:20] if cut else head.encode() + body)
        answer = b""
        while more := connection.recv(65536):
            answer += more
        return answer


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_an_unreachable_address_is_distinguished_from_a_missing_one(free_port: int) -> None:
    resolver = FakeResolver({"a.example": ["127.0.0.1"]})
    entries = [{"host": name, "port": free_port} for name in ("a.example", "b.example")]
    with proxy(*entries, resolver=resolver) as (made, port):
        assert b" 502 " in ask(made, port, f"CONNECT a.example:{free_port} HTTP/1.1", "Host: a.example")
        assert b" 403 " in ask(made, port, f"CONNECT b.example:{free_port} HTTP/1.1", "Host: b.example")
        plain = ask(made, port, f"GET http://a.example:{free_port}/ HTTP/1.1", f"Host: a.example:{free_port}")
        assert b" 403 " in plain
        reasons = [str(each.reason) for each in made.decisions()]
    assert reasons[:2] == ["no-address", "insecure-scheme"]


def test_plain_http_to_an_unreachable_address_is_a_bad_gateway(free_port: int) -> None:
    resolver = FakeResolver({"a.example": ["127.0.0.1"]})
    with proxy({"host": "a.example", "scheme": "http", "port": free_port}, resolver=resolver) as (made, port):
        answer = ask(made, port, f"GET http://a.example:{free_port}/ HTTP/1.1", f"Host: a.example:{free_port}")
    assert b" 502 " in answer


def test_an_incomplete_request_is_answered_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.egress.proxy._proxy.PROXY_HEAD_SECONDS", 0.1)
    with proxy("a.example") as (made, port):
        assert b" 408 " in ask(made, port, "CONNECT a.example:443 HTTP/1.1", cut=True)


def test_an_incomplete_handshake_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.egress.proxy._tunnel.PROXY_HEAD_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = server.getsockname()[1]
        resolver = FakeResolver({"a.example": ["127.0.0.1"]})
        with proxy({"host": "a.example", "port": there}, resolver=resolver) as (made, port):
            answer = ask(made, port, f"CONNECT a.example:{there} HTTP/1.1", "Host: a.example")
            refused = next(each for each in made.decisions() if not each.allowed)
    assert answer.startswith(b"HTTP/1.1 200 ") and "no ClientHello was received in time" in refused.rule


def test_requests_are_refused_if_rates_cannot_be_counted() -> None:
    class Broken(RateLimiter):
        def check_and_record(self, *_: object, **__: object) -> None:
            raise ExternalServiceError("the counter is gone", code="rates")

    with proxy("a.example", rates=Broken()) as (made, port):
        assert b"the counter is gone" in ask(made, port, "CONNECT a.example:443 HTTP/1.1", "Host: a.example")


def test_bodies_and_headers_are_framed_again() -> None:
    def serve(listener: socket.socket) -> None:
        for answer in (
            b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            b"204 No\r\n\r\n",
            b"200 OK\r\nContent-Length: 9\r\n\r\n",
        ):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 " + answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        there = server.getsockname()[1]
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        resolver = FakeResolver({"a.example": ["127.0.0.1"]})
        with proxy({"host": "a.example", "scheme": "http", "port": there}, resolver=resolver) as (made, port):
            host = f"Host: a.example:{there}"
            url = f"http://a.example:{there}/"
            chunks = ("Transfer-Encoding: chunked", "Connection: close, X-Own", "X-Own: a")
            got = ask(made, port, f"POST {url} HTTP/1.1", host, *chunks, body=b"2\r\nhi\r\n0\r\n\r\n")
            assert got.endswith(b"Content-Length: 3\r\nConnection: close\r\n\r\nabc")
            assert b"Content-Length" not in ask(made, port, f"GET {url} HTTP/1.1", host)
            head = ask(made, port, f"HEAD {url} HTTP/1.1", host)
            assert head.startswith(b"HTTP/1.1 200 ") and head.endswith(b"\r\n\r\n")
        thread.join()


def test_a_closed_proxy_serves_no_requests() -> None:
    with proxy("a.example") as (made, port):
        pass
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made.serve(listener)  # returns at once
    assert port


def test_a_client_that_connects_as_the_run_ends_is_disconnected() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that the end falls between any two steps of the start
    try:
        for _ in range(60):
            with proxy() as (_, port):
                clients = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(4)]
            for client in clients:
                with client, suppress(ConnectionError):
                    assert client.recv(1) == b""
    finally:
        sys.setswitchinterval(interval)
    assert not [thread for thread in threading.enumerate() if thread.name == "wasmrt-proxy"]


def test_the_end_of_a_run_closes_its_tunnels_and_waits_for_them() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = server.getsockname()[1]
        with proxy({"host": "a.example", "port": there}, resolver=FakeResolver({"a.example": ["127.0.0.1"]})) as (
            made,
            port,
        ):
            login = b64encode(f"wasmrt:{made.credential}".encode()).decode()
            client = socket.create_connection(("127.0.0.1", port), timeout=20)
            client.sendall(f"CONNECT a.example:{there} HTTP/1.1\r\nHost: a.example\r\n".encode())
            client.sendall(f"Proxy-Authorization: Basic {login}\r\n\r\n".encode())
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert not [thread for thread in threading.enumerate() if thread.name == "wasmrt-proxy"]
        with client, suppress(ConnectionError):
            assert client.recv(1) == b""


def test_no_thread_is_started_for_a_client_that_connected_just_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            found = super().accept()
            made.close()
            return found

    monkeypatch.setattr(
        ProgramProxy, "_handle_connection", lambda made, client: pytest.fail("nobody would wait for it")
    )
    with EgressGateway() as gateway, Late() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        made = ProgramProxy(read_program_network([]), gateway, user="ann", name="test", rates=RateLimiter())
        with socket.create_connection(listener.getsockname(), timeout=20) as client:
            made.serve(listener)
            assert client.recv(1) == b""


def test_clients_without_a_thread_do_not_use_up_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with proxy("a.example") as (made, port):
        with monkeypatch.context() as patched:
            patched.setattr("wasmrt.egress.proxy._proxy.threading.Thread", Full)
            for _ in range(_MAX_CONNECTIONS + 1):
                with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                    assert client.recv(1) == b""
        assert b" 403 " in ask(made, port, "CONNECT b.example:443 HTTP/1.1", "Host: b.example")


def test_endless_denials_do_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.egress.proxy._proxy._MAX_DECISIONS", 3)
    with proxy("a.example") as (made, port):
        for number in range(5):
            ask(made, port, f"CONNECT b{number}.example:443 HTTP/1.1", f"Host: b{number}.example")
        subjects = [each.subject for each in made.decisions()]
        assert subjects == [f"CONNECT https://b{number}.example" for number in range(3)]
        assert made.decisions() == ()


def test_a_program_that_expects_continue_is_told_to_continue(free_port: int) -> None:
    resolver = FakeResolver({"a.example": ["127.0.0.1"]})
    with proxy({"host": "a.example", "scheme": "http", "port": free_port}, resolver=resolver) as (made, port):
        login = b64encode(f"wasmrt:{made.credential}".encode()).decode()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            head = (f"POST http://a.example:{free_port}/ HTTP/1.1", f"Host: a.example:{free_port}", "Content-Length: 2")
            more = (f"Proxy-Authorization: Basic {login}", "Expect: 100-continue", "", "")
            client.sendall("\r\n".join((*head, *more)).encode())
            assert client.recv(65536).startswith(b"HTTP/1.1 100 ")
            client.sendall(b"hi")
            assert client.recv(65536).startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize(
    ("line", "headers", "body", "status"),
    [
        ("CONNECT a.example HTTP/1.1", ("Host: a.example",), b"", 400),
        ("CONNECT a.example:443 HTTP/1.1", ("Host: b.example",), b"", 400),
        ("CONNECT a.example:443 HTTP/1.1", ("Host: a.example", "Content-Length: 0"), b"", 400),
        ("CONNECT a.example:443 HTTP/1.1", ("Host: a.example",), b"GET / HTTP/1.1", 400),
        ("CONNECT a.example:0 HTTP/1.1", ("Host: a.example:0",), b"", 403),
        ("GET / HTTP/1.1", ("Host: a.example",), b"", 400),
        ("GET http://a.example/ HTTP/1.1", ("Host: b.example",), b"", 400),
        ("GET http://a.example/ HTTP/1.1", ("Host: a.example", "Upgrade: h2c"), b"", 400),
        ("GET http://a.example/ HTTP/1.1", ("Host: a.example",), b"GET / HTTP/1.1", 400),
        ("POST http://a.example/ HTTP/1.1", ("Host: a.example", "Content-Length: 5"), b"hello", 413),
        ("no request", (), b"", 400),
    ],
)
def test_a_request_that_could_be_read_differently_is_refused(
    monkeypatch: pytest.MonkeyPatch, line: str, headers: tuple[str, ...], body: bytes, status: int
) -> None:
    monkeypatch.setattr("wasmrt.egress.proxy._request.PROXY_BODY_BYTES", 4)
    with proxy("a.example", {"host": "a.example", "scheme": "http"}) as (made, port):
        assert ask(made, port, line, *headers, body=body).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_disconnected_or_unauthenticated_client_gets_no_other_information() -> None:
    with proxy("a.example") as (made, port):
        for headers in ("Host: a.example", "Host: a.example\r\nProxy-Authorization: Basic d2FzbXJ0OmE="):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall(f"CONNECT a.example:443 HTTP/1.1\r\n{headers}\r\n\r\n".encode())
                answer = client.recv(65536)
            assert answer.startswith(b"HTTP/1.1 407 ") and b"Proxy-Authenticate: Basic" in answer
            assert made.credential.encode() not in answer
        assert made.decisions() == ()
    here, there = socket.socketpair()
    with there, pytest.raises(RefusedError) as caught:
        here.close()
        read_request(there, "credential", 20)
    assert (caught.value.status, caught.value.sentence) == (400, "no request was received")


def test_a_program_that_connects_too_often_is_rate_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.egress.proxy._proxy._RATE", RateLimitConfig(2, 100))
    with proxy("a.example") as (made, port):
        answers = [ask(made, port, "CONNECT b.example:443 HTTP/1.1", "Host: b.example")[:13] for _ in range(3)]
    assert answers == [b"HTTP/1.1 403 ", b"HTTP/1.1 403 ", b"HTTP/1.1 429 "]
