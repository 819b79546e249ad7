"""The decisions that a request records for its call, and its exact size limits."""

from __future__ import annotations

import pytest
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from wasmrt.capabilities import CredentialLocation, CredentialMapping
from wasmrt.core.model import Reason
from wasmrt.egress.gateway import HttpFailure, HttpRequest
from wasmrt.egress.gateway._headers import header_bytes
from wasmrt.egress.leaks import Action, LeakDetector
from wasmrt.sandbox.component.worlds import FailureKind

from .world import HOST, MakeWorld

SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"


def ok(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(b"ok")


def test_an_allowed_request_is_recorded_with_the_entry_that_allows_it(world: MakeWorld) -> None:
    w = world(ok)
    call = w.call()
    call.watch("name", SECRET)
    w.get("/v1/things?q=1", call)
    w.get("/elsewhere", call)
    assert [(decision.allowed, decision.rule) for decision in call.decisions] == [(True, "http.allowlist[0]")] * 2
    assert call.decisions[0].subject == f"GET {w.url('/v1/things')}"


def test_a_request_with_a_secret_is_recorded_as_denied_and_not_sent(world: MakeWorld) -> None:
    w = world(ok)
    call = w.call()
    with pytest.raises(HttpFailure) as caught:
        w.get("/", call, headers=(("X-Note", TOKEN),))
    allowed, refused = call.decisions
    assert (allowed.allowed, refused.allowed, refused.reason) == (True, False, Reason.LEAK)
    assert caught.value.decision == refused
    assert refused.subject == f"GET {w.url('')}"
    assert w.server.connections == 0


def test_a_request_may_have_as_many_bytes_as_its_grant_allows(world: MakeWorld) -> None:
    w = world(ok)
    headers = (("X-One", "1"),)
    size = len(w.url("/")) + header_bytes(headers) + 10
    call = w.call(max_request_bytes=size)
    w.gateway.fetch(call, HttpRequest("POST", w.url("/"), headers, b"x" * 10))
    with pytest.raises(HttpFailure) as caught:
        w.gateway.fetch(call, HttpRequest("POST", w.url("/"), headers, b"x" * 11))
    failure = caught.value
    assert (failure.kind, failure.code) == (FailureKind.INPUT, str(Reason.REQUEST_TOO_LARGE))
    assert failure.message == f"the request has {size + 1} bytes, more than http.max_request_bytes"
    assert failure.hint == f"send less, or raise http.max_request_bytes, now {size}"
    assert call.decisions[-1].subject == f"POST {w.url('/')}"


def test_a_query_parameter_named_like_a_credentials_header_is_sent(world: MakeWorld) -> None:
    w = world(ok)
    header = CredentialMapping(
        secret_name="token", location=CredentialLocation.header("X-Api-Key"), host_patterns=(HOST,)
    )
    call = w.call(header, secrets={"token": SECRET})
    assert w.get("/?X-Api-Key=1&Authorization=2", call).status == 200
    assert w.server.requests[-1].header("X-Api-Key") == SECRET


def test_one_of_several_query_credentials_suffices_to_refuse_its_name(world: MakeWorld) -> None:
    w = world(ok)
    mappings = [
        CredentialMapping(secret_name=name, location=CredentialLocation.query_param(name), host_patterns=(HOST,))
        for name in ("first_key", "second_key")
    ]
    call = w.call(*mappings, secrets={"first_key": SECRET, "second_key": SECRET[::-1]})
    with pytest.raises(HttpFailure, match="second_key is set from a secret"):
        w.get("/?a=1&second_key=x", call)
    assert call.decisions[-1].reason is Reason.HEADER_NOT_ALLOWED
    assert w.get("/?a=1", call).status == 200


def test_a_non_public_address_is_a_denial_and_not_a_network_failure(world: MakeWorld) -> None:
    w = world(ok, networks=())
    call = w.call()
    with pytest.raises(HttpFailure) as caught:
        w.get("/", call)
    assert (caught.value.kind, caught.value.code) == (FailureKind.NETWORK_DENIED, str(Reason.ADDRESS_NOT_ALLOWED))
    assert [decision.allowed for decision in call.decisions] == [True, False]


def test_a_missing_credential_is_recorded_as_a_denial(world: MakeWorld) -> None:
    w = world(ok)
    bearer = CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(HOST,))
    call = w.call(bearer)
    with pytest.raises(HttpFailure) as caught:
        w.get("/", call)
    assert (caught.value.kind, caught.value.code) == (FailureKind.AUTH_REQUIRED, str(Reason.CREDENTIAL_MISSING))
    assert [decision.allowed for decision in call.decisions] == [True, False]
    assert (call.decisions[-1].rule, call.decisions[-1].subject) == (f"http.credentials.{bearer.name}", "token")


def test_a_blocked_response_is_recorded_as_denied_and_releases_its_connection(world: MakeWorld) -> None:
    def leaking(request: ReceivedRequest, connection: ServerConnection) -> None:
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + f"one {TOKEN} two".encode() * 2000)
        connection.closing.wait()

    w = world(leaking, max_connections=1)
    for _ in range(2):
        call = w.call()
        call.scanner = LeakDetector(overrides={"github-pat": Action.BLOCK}).scanner()
        response = w.gateway.open(call, HttpRequest("GET", w.url(), timeout_seconds=10.0))
        with pytest.raises(HttpFailure) as caught:
            while response.read():
                pass
        assert caught.value.code == "response-leak"
        assert caught.value.decision == call.decisions[-1]
        assert (call.decisions[-1].allowed, call.decisions[-1].reason) == (False, Reason.LEAK)
