"""Simple requests through the gateway: the sent request, the response, and shared connections."""

from __future__ import annotations

import gzip
import threading

import pytest
from wasmrt.testing import FakeCall, ReceivedRequest, ServerConnection, http_response

from wasmrt.capabilities import Capabilities
from wasmrt.core.model import Reason
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpRequest, NetworkConfig
from wasmrt.egress.gateway._codings import ACCEPT_ENCODING
from wasmrt.egress.rates import RateLimiter
from wasmrt.sandbox.component.worlds import FailureKind

from .world import HOST, MakeWorld, watch_end


def hello(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(b"hello")


def test_a_granted_request_gets_its_response(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"hello", headers=(("X-One", "1"), ("X-Two", "a"), ("X-Two", "b"))))
    call = w.call()
    answer = w.get("/v1/things?q=1", call)
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.headers == (("X-One", "1"), ("X-Two", "a"), ("X-Two", "b"))
    assert [(d.allowed, d.subject) for d in call.decisions] == [(True, f"GET {w.url('/v1/things')}")]
    assert call.sent_bytes > 100 and call.received_bytes > 50


def test_host_header_and_sni_match_the_url(world: MakeWorld) -> None:
    w = world(hello)
    w.get()
    request = w.server.requests[0]
    assert request.header("Host") == f"{HOST}:{w.server.port}"
    assert request.sni == HOST


@pytest.mark.parametrize("path", ["/a(b),c'd!*", "/x%2Fy/z%20?q=a|b&c={d}[e]^`", "/~a;b=1/:@$", "/a//b/", "/%e2%82%ac"])
def test_the_request_target_is_sent_as_the_guest_wrote_it(world: MakeWorld, path: str) -> None:
    w = world(hello)
    w.get(path)
    assert w.server.requests[0].target == path


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_every_method_works_and_writes_without_a_body_have_a_length(world: MakeWorld, method: str) -> None:
    w = world(lambda r, c: http_response(b"" if r.method == "HEAD" else b"x", length=1))
    answer = w.gateway.fetch(w.call(), HttpRequest(method, w.url()))
    assert answer.body == (b"" if method == "HEAD" else b"x")
    length = w.server.requests[0].header("Content-Length")
    assert length == ("0" if method in ("POST", "PUT", "PATCH", "DELETE") else None)


def test_a_body_is_sent_completely(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(str(len(r.body)).encode()))
    body = bytes(range(256)) * 2000
    headers = (("Content-Type", "application/octet-stream"), ("Content-Length", str(len(body))))
    answer = w.gateway.fetch(w.call(), HttpRequest("POST", w.url(), headers, body))
    assert answer.body == str(len(body)).encode()
    assert w.server.requests[0].header("Content-Length") == str(len(body))
    assert w.server.requests[0].body == body


def test_connections_are_reused_between_calls_but_never_between_hosts(world: MakeWorld) -> None:
    w = world(hello)
    for _ in range(3):
        w.get(call=w.call())
    assert w.server.connections == 1
    w.gateway.fetch(w.call(), HttpRequest("GET", w.url(host="other.example.com")))
    assert w.server.connections == 2
    assert w.server.requests[-1].sni == "other.example.com"


def test_a_connection_dropped_by_the_server_is_replaced(world: MakeWorld) -> None:
    def close_after_first(request: ReceivedRequest, connection: ServerConnection) -> bytes | None:
        if len(w.server.requests) == 2:  # the second request on the kept connection finds it closed
            connection.keep_alive = False
            return None
        return http_response(b"ok")

    w = world(close_after_first)
    assert w.get().body == b"ok"
    assert w.get().body == b"ok"
    assert (w.server.connections, len(w.server.requests)) == (2, 3)


def test_a_write_is_not_repeated_if_the_connection_breaks(world: MakeWorld) -> None:
    def close_after_first(request: ReceivedRequest, connection: ServerConnection) -> bytes | None:
        connection.keep_alive = len(w.server.requests) < 2
        return http_response(b"ok") if connection.keep_alive else None

    w = world(close_after_first)
    w.get()
    with pytest.raises(HttpFailure) as caught:
        w.gateway.fetch(w.call(), HttpRequest("POST", w.url(), body=b"pay"))
    assert (caught.value.kind, caught.value.request_sent) == (FailureKind.OPERATION_FAILED, True)
    assert len(w.server.requests) == 2


@pytest.mark.parametrize(
    ("coding", "encode"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("identity", bytes),
        ("gzip", lambda data: gzip.compress(data[:10]) + gzip.compress(data[10:])),
    ],
)
def test_content_codings_are_decoded_and_their_headers_removed(world: MakeWorld, coding: str, encode) -> None:  # type: ignore[no-untyped-def]
    text = b"some text that repeats " * 5000
    w = world(lambda r, c: http_response(encode(text), headers=(("Content-Encoding", coding),)))
    answer = w.get()
    assert answer.body == text
    assert answer.headers == ()
    assert w.server.requests[0].header("Accept-Encoding") == ACCEPT_ENCODING


def test_nothing_is_fetched_without_a_grant(world: MakeWorld) -> None:
    w = world(hello)
    call = FakeCall(Capabilities.none())
    with pytest.raises(HttpFailure) as caught:
        w.get(call=call)
    assert caught.value.kind is FailureKind.NETWORK_DENIED
    assert caught.value.decision is not None and caught.value.decision.reason is Reason.NOT_GRANTED
    assert call.decisions == [caught.value.decision]
    assert w.server.connections == 0


def test_a_denial_has_the_line_that_would_allow_the_request(world: MakeWorld) -> None:
    w = world(hello)
    call = w.call(path_prefix="/v1/", methods=("GET",))
    with pytest.raises(HttpFailure) as caught:
        w.get("/v2/admin", call)
    failure = caught.value
    assert (failure.code, failure.request_sent) == ("path-not-allowed", False)
    assert failure.hint is not None and '"path_prefix": "/v2/admin"' in failure.hint


def test_the_request_budget_of_a_call_is_enforced_and_denied_requests_are_free(world: MakeWorld) -> None:
    w = world(hello)
    call = w.call(path_prefix="/ok/")
    call.requests_left = 2
    for _ in range(5):
        with pytest.raises(HttpFailure, match="cover other paths"):
            w.get("/no", call)
    w.get("/ok/1", call)
    w.get("/ok/2", call)
    with pytest.raises(HttpFailure) as caught:
        w.get("/ok/3", call)
    assert (caught.value.kind, caught.value.code) == (FailureKind.EXECUTOR, "request-budget")


def test_a_full_rate_window_reports_when_to_retry(world: MakeWorld) -> None:
    from wasmrt.capabilities import RateLimitConfig

    w = world(hello, rates=RateLimiter(now=lambda: 100.0))
    call = w.call(rate_limit=RateLimitConfig(2, 10))
    w.get(call=call)
    w.get(call=call)
    with pytest.raises(HttpFailure) as caught:
        w.get(call=call)
    assert (caught.value.code, caught.value.retry_after_seconds) == ("rate-limited", 60.0)
    assert call.decisions[-1].reason is Reason.RATE_LIMITED


def test_closing_the_gateway_closes_all_connections(world: MakeWorld) -> None:
    gone = threading.Event()

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        watch_end(connection, gone)
        return http_response(b"x")

    w = world(script, tls=False)
    w.get()
    w.gateway.close()
    assert gone.wait(10)


def test_an_invalid_ca_file_is_reported_when_the_gateway_is_created(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from wasmrt.core.errors import ConfigurationError

    for content in (None, "not pem"):
        path = tmp_path / f"{content}"
        if content:
            path.write_text(content)
        with pytest.raises(ConfigurationError):
            NetworkConfig(ca_file=path)
    path = tmp_path / "broken.pem"
    path.write_text("-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n")
    config = NetworkConfig(ca_file=path)
    with pytest.raises(ConfigurationError, match="unreadable certificate"):
        EgressGateway(config)
