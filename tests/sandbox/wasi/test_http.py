"""wasi:http: requests are sent through the gateway when the guest asks for the response."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.sandbox.wasi.conftest import Guest
from wasmrt.capabilities import Capabilities, EndpointPattern, HttpCapability
from wasmrt.core.errors import BudgetExceededError, InternalError, TrapError
from wasmrt.core.limits import MAX_HEADERS, MAX_HELD_HTTP_BYTES, MAX_OPEN_ANSWERS, MIB
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway import HttpFailure, HttpRequest
from wasmrt.sandbox.component import Case, Err, Ok
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest import wasi
from wasmrt.sandbox.guest.clock import Clock, LogicalClock, SystemClock

_T = "http/types#"
_STREAM = "io/streams#[method]"


class Answer:
    """A response whose body arrives in pieces; a piece can be a failure."""

    status = 200
    headers = (("x-a", "1"), ("X-A", "2"))

    def __init__(self, *pieces: bytes | HttpFailure) -> None:
        self.left = list(pieces)
        self.closed = False

    def read(self) -> bytes:
        piece = self.left.pop(0) if self.left else b""
        if isinstance(piece, HttpFailure):
            raise piece
        return piece

    def close(self) -> None:
        self.closed = True


class Door:
    """A gateway that returns the same pieces for every request, and records requests and responses."""

    def __init__(self, *pieces: bytes | HttpFailure, refuses: HttpFailure | None = None) -> None:
        self.networks = ()
        self.pieces = pieces or (b"the answer",)
        self.refuses = refuses
        self.asked: list[HttpRequest] = []
        self.answers: list[Answer] = []

    def fetch(self, call: object, request: HttpRequest) -> None:
        raise AssertionError("wasi:http must not wait for complete responses")

    def open(self, call: object, request: HttpRequest) -> Answer:
        self.asked.append(request)
        if self.refuses is not None:
            raise self.refuses
        self.answers.append(Answer(*self.pieces))
        return self.answers[-1]


class Client:
    """A guest with a grant for api.example.com and a fake gateway."""

    def __init__(self, *pieces: bytes | HttpFailure, refuses: HttpFailure | None = None, **options: Any) -> None:
        self.door = Door(*pieces, refuses=refuses)
        grant = Capabilities.none().with_http(
            HttpCapability((EndpointPattern("api.example.com"),), max_request_bytes=1000)
        )
        self.guest = Guest(grant=grant, http=self.door, **options)

    def __call__(self, name: str, *values: Any) -> Any:
        return self.guest(_T + name, *values)

    def request(self, *, method: str = "get", authority: str = "api.example.com", path: str = "/v1") -> int:
        request = int(self("[constructor]outgoing-request", self("[constructor]fields")))
        assert self("[method]outgoing-request.set-method", request, Case(method)) == Ok()
        assert self("[method]outgoing-request.set-scheme", request, Case("HTTPS")) == Ok()
        assert self("[method]outgoing-request.set-authority", request, authority) == Ok()
        assert self("[method]outgoing-request.set-path-with-query", request, path) == Ok()
        return request

    def handle(self, request: int, options: int | None = None) -> Any:
        return self.guest("http/outgoing-handler#handle", request, options)

    def answer(self, request: int) -> Any:
        return self("[method]future-incoming-response.get", self.handle(request).value)

    def body(self) -> tuple[int, int]:
        """Send a request; return the body of the response and its stream."""
        body = self("[method]incoming-response.consume", self.answer(self.request()).value.value).value
        return body, self("[method]incoming-body.stream", body).value

    def read(self, stream: int, count: int = 1000) -> Any:
        return self.guest(_STREAM + "input-stream.blocking-read", stream, count)


def test_a_request_is_sent_as_the_guest_built_it() -> None:
    client = Client()
    fields = client("[static]fields.from-list", [("accept", b"a/b"), ("x-n", b"\xe4")]).value
    request = client("[constructor]outgoing-request", fields)
    client("[method]outgoing-request.set-authority", request, "api.example.com:8443")
    client("[method]outgoing-request.set-path-with-query", request, "/v1?q=1")
    client("[method]outgoing-request.set-method", request, Case("other", "QUERY"))
    assert isinstance(client.answer(request).value, Ok)
    assert client.door.asked == [
        HttpRequest("QUERY", "https://api.example.com:8443/v1?q=1", (("accept", "a/b"), ("x-n", "ä")), None, None)
    ]


def test_a_response_is_read_with_headers_in_order() -> None:
    client = Client()
    response = client.answer(client.request()).value.value
    assert client("[method]incoming-response.status", response) == 200
    headers = client("[method]incoming-response.headers", response)
    assert client("[method]fields.entries", headers) == [("x-a", b"1"), ("X-A", b"2")]
    body = client("[method]incoming-response.consume", response).value
    assert client("[method]incoming-response.consume", response) == Err()
    stream = client("[method]incoming-body.stream", body).value
    assert client("[method]incoming-body.stream", body) == Err()
    assert client.guest(_STREAM + "input-stream.blocking-read", stream, 1000) == Ok(b"the answer")
    assert client.guest(_STREAM + "input-stream.blocking-read", stream, 1000) == Err(Case("closed"))
    trailers = client("[static]incoming-body.finish", body)
    assert client.guest("io/poll#poll", [client("[method]future-trailers.subscribe", trailers)]) == [0]
    assert client("[method]future-trailers.get", trailers) == Ok(Ok(None))
    assert client("[method]future-trailers.get", trailers) == Err()


def test_a_request_is_sent_only_after_its_body_is_finished() -> None:
    client = Client()
    request = client.request(method="post")
    body = client("[method]outgoing-request.body", request).value
    assert client("[method]outgoing-request.body", request) == Err()
    stream = client("[method]outgoing-body.write", body).value
    assert client("[method]outgoing-body.write", body) == Err()
    future = client.handle(request).value
    client.guest(_STREAM + "output-stream.write", stream, b"half, ")
    assert client("[method]future-incoming-response.get", future) is None
    assert client.door.asked == []
    client.guest(_STREAM + "output-stream.blocking-write-and-flush", stream, b"whole")
    assert client("[static]outgoing-body.finish", body, None) == Ok()
    pollable = client("[method]future-incoming-response.subscribe", future)
    assert client.guest("io/poll#[method]pollable.ready", pollable)
    assert isinstance(client("[method]future-incoming-response.get", future), Ok)
    assert client("[method]future-incoming-response.get", future) == Err()
    assert [asked.body for asked in client.door.asked] == [b"half, whole"]
    assert client.guest(_STREAM + "output-stream.write", stream, b"late") == Err(Case("closed"))


def test_a_request_with_a_dropped_unfinished_body_is_never_sent() -> None:
    client = Client()
    request = client.request(method="post")
    body = client("[method]outgoing-request.body", request).value
    client.guest.drop("http/types#outgoing-body", body)
    assert client.answer(request) == Ok(Err(Case("connection-terminated")))
    assert client.door.asked == []


def test_trailers_are_refused() -> None:
    client = Client()
    request = client.request(method="post")
    body = client("[method]outgoing-request.body", request).value
    assert isinstance(client("[static]outgoing-body.finish", body, client("[constructor]fields")), Err)
    assert client.answer(request) == Ok(Err(Case("connection-terminated")))


@pytest.mark.parametrize("clock", [SystemClock(), LogicalClock()])
def test_waiting_for_a_response_before_finishing_the_body_traps(clock: Clock) -> None:
    client = Client(clock=clock)
    request = client.request(method="post")
    client("[method]outgoing-request.body", request)
    future = client.handle(request).value
    pollable = client("[method]future-incoming-response.subscribe", future)
    assert not client.guest("io/poll#[method]pollable.ready", pollable)
    with pytest.raises(TrapError, match="not finished"):
        client.guest("io/poll#[method]pollable.block", pollable)


def test_poll_does_not_wait_for_a_response_with_an_unfinished_body() -> None:
    client = Client()
    request = client.request(method="post")
    client("[method]outgoing-request.body", request)
    pending = client("[method]future-incoming-response.subscribe", client.handle(request).value)
    timer = client.guest("clocks/monotonic-clock#subscribe-duration", 1000)
    assert client.guest("io/poll#poll", [pending, timer]) == [1]


@pytest.mark.parametrize(("written", "finished"), [(b"1234", Ok()), (b"12", Err(Case("HTTP-request-body-size", 2)))])
def test_a_body_must_match_its_content_length(written: bytes, finished: Ok | Err) -> None:
    client = Client()
    fields = client("[static]fields.from-list", [("Content-Length", b"4")]).value
    body = client("[method]outgoing-request.body", client("[constructor]outgoing-request", fields)).value
    stream = client("[method]outgoing-body.write", body).value
    assert client.guest(_STREAM + "output-stream.write", stream, written) == Ok()
    more = client.guest(_STREAM + "output-stream.write", stream, b"567")
    assert client("http-error-code", more.value.value) == Case("HTTP-request-body-size", 4)
    assert client("[static]outgoing-body.finish", body, None) == finished


def test_a_body_over_the_granted_size_returns_an_error_code() -> None:
    client = Client()
    body = client("[method]outgoing-request.body", client.request(method="post")).value
    stream = client("[method]outgoing-body.write", body).value
    assert client.guest(_STREAM + "output-stream.write", stream, bytes(1000)) == Ok()
    answer = client.guest(_STREAM + "output-stream.write", stream, b"x")
    assert client("http-error-code", answer.value.value) == Case("HTTP-request-body-size", 1000)


def test_total_size_of_response_bodies_is_limited() -> None:
    client = Client(*(bytes(MIB),) * (MAX_HELD_HTTP_BYTES // MIB + 1))
    _, stream = client.body()
    with pytest.raises(BudgetExceededError) as caught:
        while isinstance(client.read(stream, MIB), Ok):
            pass
    assert caught.value.setting == "limits.MAX_HELD_HTTP_BYTES"


def test_a_response_body_is_received_only_as_the_guest_reads() -> None:
    client = Client(b"first", b"second", b"third")
    _, stream = client.body()
    (answer,) = client.door.answers
    assert answer.left == [b"first", b"second", b"third"]
    assert client.read(stream, 0) == Ok(b"") and len(answer.left) == 3
    assert [client.read(stream, 3), client.read(stream, 3)] == [Ok(b"fir"), Ok(b"st")]
    assert answer.left == [b"second", b"third"]
    assert [client.read(stream) for _ in range(4)] == [
        Ok(b"second"),
        Ok(b"third"),
        Err(Case("closed")),
        Err(Case("closed")),
    ]
    assert answer.closed


def test_an_interrupted_body_is_a_stream_error_with_a_code() -> None:
    client = Client(b"first", HttpFailure(FailureKind.OPERATION_FAILED, "connection", "it broke", request_sent=True))
    _, stream = client.body()
    assert client.read(stream) == Ok(b"first")
    error = client.read(stream).value.value
    assert client("http-error-code", error) == Case("connection-terminated")
    assert client.guest("io/error#[method]error.to-debug-string", error) == "it broke"
    assert client.read(stream) == Err(Case("closed"))
    assert client.door.answers[0].closed


@pytest.mark.parametrize("let_go", ["finish", "drop the body", "drop the response", "end the call"])
def test_releasing_a_response_closes_its_connection(let_go: str) -> None:
    client = Client(b"first", b"second")
    response = client.answer(client.request()).value.value
    if let_go == "drop the response":
        client.guest.drop("http/types#incoming-response", response)
    elif let_go == "end the call":
        client.guest.services.close()
    else:
        body = client("[method]incoming-response.consume", response).value
        client.guest.drop("http/types#incoming-response", response)
        assert not client.door.answers[0].closed
        if let_go == "finish":
            client("[static]incoming-body.finish", body)
        else:
            client.guest.drop("http/types#incoming-body", body)
    assert client.door.answers[0].closed


def test_open_connections_of_unfinished_responses_are_limited() -> None:
    client = Client(b"first", b"second")
    streams = [client.body()[1] for _ in range(MAX_OPEN_ANSWERS + 3)]
    assert [answer.closed for answer in client.door.answers] == [False] * MAX_OPEN_ANSWERS + [True] * 3
    assert [client.read(stream) for stream in streams] == [Ok(b"first")] * MAX_OPEN_ANSWERS + [Ok(b"firstsecond")] * 3


def test_failure_while_receiving_a_whole_response_is_returned() -> None:
    client = Client(b"first", HttpFailure(FailureKind.OPERATION_FAILED, "connection", "it broke"))
    for _ in range(MAX_OPEN_ANSWERS):
        client.body()
    assert client.answer(client.request()) == Ok(Err(Case("connection-terminated")))


@pytest.mark.parametrize("http", [None, Door()])
def test_without_a_grant_no_request_is_sent_and_the_denial_is_recorded(http: Door | None) -> None:
    client = Client()
    client.guest = Guest(http=http)
    assert client.handle(client.request()) == Err(Case("HTTP-request-denied"))
    (decision,) = client.guest.call.decisions
    assert (decision.allowed, decision.reason) == (False, Reason.NOT_GRANTED)
    assert http is None or http.asked == []


def test_denial_without_a_network_has_a_hint() -> None:
    client = Client()
    grant = client.guest.call.grant
    client.guest = Guest(grant=grant)
    assert client.handle(client.request()) == Err(Case("HTTP-request-denied"))
    (decision,) = client.guest.call.decisions
    assert (decision.allowed, decision.reason) == (False, Reason.NOT_GRANTED)
    assert "network" in (decision.hint or "")


_ANSWER = next(
    interface.signatures["[method]future-incoming-response.get"]
    for interface in wasi.interfaces()
    if interface.name.startswith("wasi:http/types@")
)
_REFUSED = Decision(False, Reason.HOST_NOT_ALLOWED, "no way", "a line", "http", "x")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (HttpFailure(FailureKind.NETWORK_DENIED, "host-not-allowed", "no", decision=_REFUSED), "HTTP-request-denied"),
        (HttpFailure(FailureKind.NETWORK_DENIED, "leak", "no", decision=_REFUSED), "HTTP-request-denied"),
        (HttpFailure(FailureKind.AUTH_REQUIRED, "credential-missing", "", decision=_REFUSED), "HTTP-request-denied"),
        (HttpFailure(FailureKind.NETWORK_DENIED, "address-not-allowed", "no"), "destination-IP-prohibited"),
        (HttpFailure(FailureKind.OPERATION_FAILED, "no-address", "no"), "DNS-error"),
        (HttpFailure(FailureKind.OPERATION_FAILED, "connect", "no"), "destination-unavailable"),
        (HttpFailure(FailureKind.OPERATION_FAILED, "connection", "no"), "connection-terminated"),
        (HttpFailure(FailureKind.OPERATION_FAILED, "tls", "no"), "TLS-protocol-error"),
        (HttpFailure(FailureKind.OPERATION_FAILED, "tls-certificate", "no"), "TLS-certificate-error"),
        (HttpFailure(FailureKind.OPERATION_FAILED, "protocol", "no"), "HTTP-protocol-error"),
        (HttpFailure(FailureKind.OPERATION_FAILED, "timeout", "no"), "connection-timeout"),
        (HttpFailure(FailureKind.OPERATION_FAILED, "timeout", "no", request_sent=True), "HTTP-response-timeout"),
        (HttpFailure(FailureKind.OUTPUT_TOO_LARGE, "response-too-large", "no"), "HTTP-response-body-size"),
        (HttpFailure(FailureKind.INPUT, "request-too-large", "no"), "HTTP-request-body-size"),
        (HttpFailure(FailureKind.EXECUTOR, "request-budget", "no"), "connection-limit-reached"),
        (HttpFailure(FailureKind.NETWORK_DENIED, "invalid-url", "no"), "HTTP-request-URI-invalid"),
        (HttpFailure(FailureKind.OPERATION_FAILED, "content-coding", "no"), "HTTP-response-content-coding"),
        (HttpFailure(FailureKind.AUTH_REQUIRED, "credential-unusable", "no"), "internal-error"),
        (HttpFailure(FailureKind.EXECUTOR, "a-new-one", "no"), "internal-error"),
    ],
)
def test_gateway_failures_become_wasi_http_error_codes(failure: HttpFailure, expected: str) -> None:
    client = Client(refuses=failure)
    assert client.answer(client.request()).value.value.name == expected
    assert re.search(rf"[{{ ]{expected}[,( ]", _ANSWER), "the type of the response has no such case"


def test_other_failures_become_internal_errors_with_their_hint() -> None:
    failure = HttpFailure(FailureKind.AUTH_REQUIRED, "credential-unusable", "too short", hint="set a longer one")
    client = Client(refuses=failure)
    expected = Case("internal-error", "credential-unusable: too short; set a longer one")
    assert client.answer(client.request()) == Ok(Err(expected))


@pytest.mark.parametrize("method", ["", "A B", "G\r\nX", "ä", "GET/"])
def test_a_method_that_is_not_a_token_is_refused(method: str) -> None:
    client = Client()
    assert client("[method]outgoing-request.set-method", client.request(), Case("other", method)) == Err()


@pytest.mark.parametrize("scheme", ["", "a b", "https://evil.com/", "1a"])
def test_invalid_schemes_are_refused(scheme: str) -> None:
    client = Client()
    assert client("[method]outgoing-request.set-scheme", client.request(), Case("other", scheme)) == Err()


@pytest.mark.parametrize("authority", ["user@host", "host/path", "host\\path", "a b", "a\r\nb", "höst", "h?x", "h#x"])
def test_ambiguous_authorities_are_refused(authority: str) -> None:
    client = Client()
    request = client("[constructor]outgoing-request", client("[constructor]fields"))
    assert client("[method]outgoing-request.set-authority", request, authority) == Err()


@pytest.mark.parametrize("path", ["/a b", "/a\r\nHost: evil", "/a#b", "/a\\b", "/ä"])
def test_a_path_that_breaks_the_request_line_is_refused(path: str) -> None:
    client = Client()
    request = client("[constructor]outgoing-request", client("[constructor]fields"))
    assert client("[method]outgoing-request.set-path-with-query", request, path) == Err()


@pytest.mark.parametrize(("authority", "path"), [(None, "/"), ("api.example.com", "v1")])
def test_request_parts_that_do_not_form_a_url_are_refused(authority: str | None, path: str) -> None:
    client = Client()
    request = client("[constructor]outgoing-request", client("[constructor]fields"))
    client("[method]outgoing-request.set-authority", request, authority)
    client("[method]outgoing-request.set-path-with-query", request, path)
    assert client.handle(request) == Err(Case("HTTP-request-URI-invalid"))


def test_getters_return_the_parts_of_a_request() -> None:
    client = Client()
    request = client.request(method="put")
    assert client("[method]outgoing-request.method", request) == Case("put")
    assert client("[method]outgoing-request.scheme", request) == Case("HTTPS")
    assert client("[method]outgoing-request.authority", request) == "api.example.com"
    assert client("[method]outgoing-request.path-with-query", request) == "/v1"
    headers = client("[method]outgoing-request.headers", request)
    assert client("[method]fields.append", headers, "a", b"b") == Err(Case("immutable"))


@pytest.mark.parametrize(
    ("connect", "first", "between", "asked"), [(1, 3, None, 4.0), (None, 3, 2, 5.0), (1, None, 2, None)]
)
def test_the_exchange_timeout_is_the_sum_of_all_timeouts(
    connect: int | None, first: int | None, between: int | None, asked: float | None
) -> None:
    client = Client()
    options = client("[constructor]request-options")
    for name, seconds in (("connect", connect), ("first-byte", first), ("between-bytes", between)):
        nanoseconds = None if seconds is None else seconds * 1_000_000_000
        assert client(f"[method]request-options.set-{name}-timeout", options, nanoseconds) == Ok()
        assert client(f"[method]request-options.{name}-timeout", options) == nanoseconds
    future = client.handle(client.request(), options).value
    client("[method]future-incoming-response.get", future)
    assert client.door.asked[0].timeout_seconds == asked


def test_fields_find_names_in_any_case() -> None:
    client = Client()
    fields = client("[constructor]fields")
    client("[method]fields.append", fields, "X-A", b"1")
    client("[method]fields.append", fields, "x-a", b"2")
    assert client("[method]fields.get", fields, "x-A") == [b"1", b"2"]
    copy = client("[method]fields.clone", fields)
    assert client("[method]fields.set", fields, "x-a", [b"3"]) == Ok()
    assert client("[method]fields.delete", fields, "X-A") == Ok()
    assert not client("[method]fields.has", fields, "x-a")
    assert client("[method]fields.entries", copy) == [("X-A", b"1"), ("x-a", b"2")]


@pytest.mark.parametrize(
    ("name", "value"),
    [("", b""), ("a b", b""), ("a:", b""), ("ä", b""), ("a", b"x\r\ny: z"), ("a", b"\0"), ("a\n", b"")],
)
def test_fields_with_invalid_syntax_are_refused(name: str, value: bytes) -> None:
    client = Client()
    fields = client("[constructor]fields")
    assert client("[method]fields.append", fields, name, value) == Err(Case("invalid-syntax"))
    assert client("[static]fields.from-list", [(name, value)]) == Err(Case("invalid-syntax"))
    assert client("[method]fields.entries", fields) == []


@pytest.mark.parametrize("name", ["Host", "connection", "Transfer-Encoding", "TE", "upgrade", "proxy-authorization"])
def test_fields_reserved_for_the_host_are_forbidden(name: str) -> None:
    client = Client()
    fields = client("[constructor]fields")
    assert client("[method]fields.append", fields, name, b"x") == Err(Case("forbidden"))
    assert client("[method]fields.set", fields, name, [b"x"]) == Err(Case("forbidden"))
    assert client("[static]fields.from-list", [("a", b""), (name, b"x")]) == Err(Case("forbidden"))


@pytest.mark.parametrize("value", ["zürich", "日本", "plain"])
def test_utf8_field_values_are_sent_unchanged(value: str) -> None:
    client = Client()
    fields = client("[static]fields.from-list", [("x-city", value.encode())]).value
    request = client("[constructor]outgoing-request", fields)
    client("[method]outgoing-request.set-authority", request, "api.example.com")
    client.answer(request)
    assert client.door.asked[0].headers == (("x-city", value),)


def test_fields_are_limited_in_number_and_size() -> None:
    client = Client()
    with pytest.raises(BudgetExceededError):
        client("[static]fields.from-list", [("a", b"")] * (MAX_HEADERS + 1))
    with pytest.raises(BudgetExceededError):
        client("[static]fields.from-list", [("a", bytes(70_000))])


def test_total_size_of_fields_of_a_call_is_limited() -> None:
    client = Client()
    entries = [("x", b"y" * 60_000)]
    with pytest.raises(BudgetExceededError) as caught:
        for _ in range(MAX_HELD_HTTP_BYTES // 60_000 + 1):
            client.guest.drop("http/types#fields", client("[static]fields.from-list", entries).value)
    assert caught.value.setting == "limits.MAX_HELD_HTTP_BYTES"


def test_only_the_host_creates_incoming_requests() -> None:
    client = Client()
    response = client("[constructor]outgoing-response", client("[constructor]fields"))
    for function in ("[method]incoming-request.method", "[method]incoming-request.consume"):
        with pytest.raises(InternalError):
            client(function, response)
    with pytest.raises(InternalError):
        client("[static]response-outparam.set", response, Ok(response))
