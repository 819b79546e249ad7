"""Requests by the host itself, and the defaults of a gateway."""

from __future__ import annotations

from pathlib import Path

import pytest
from wasmrt.testing import FakeCall, ReceivedRequest, ScriptedServer, ServerConnection, http_response

from wasmrt.capabilities import Capabilities, CredentialLocation, CredentialMapping, EndpointPattern, HttpCapability
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Reason
from wasmrt.egress.gateway import EgressGateway, Face, HttpFailure, HttpRequest, NetworkConfig
from wasmrt.sandbox.component.worlds import FailureKind

from .world import HOST, MakeWorld, World

SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"
BEARER = CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(HOST,))


def ok(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(b"ok")


def refused(w: World, url: str) -> HttpFailure:
    with pytest.raises(HttpFailure) as caught:
        w.gateway.send_own("GET", url, (), None, timeout_seconds=10)
    assert w.server.connections == 0
    return caught.value


def test_requests_by_the_host_go_to_public_addresses_over_https_only(world: MakeWorld) -> None:
    w = world(ok, networks=())
    private = refused(w, w.url())
    assert (private.kind, private.code) == (FailureKind.NETWORK_DENIED, str(Reason.ADDRESS_NOT_ALLOWED))
    assert private.decision is not None
    assert not private.decision.allowed
    plain = refused(w, w.url().replace("https", "http"))
    assert (plain.kind, plain.code) == (FailureKind.INPUT, "insecure-scheme")
    assert refused(w, "https://a b/").kind is FailureKind.INPUT


def test_a_request_by_the_host_releases_its_connection(world: MakeWorld) -> None:
    w = world(ok, max_connections=1)
    for _ in range(3):
        assert w.gateway.send_own("GET", w.url(), (), None, timeout_seconds=5).body == b"ok"


def test_a_default_gateway_exempts_no_network_and_uses_the_systems_resolver() -> None:
    with EgressGateway() as gateway:
        assert gateway.networks == ()
    with ScriptedServer(ok) as server:
        patterns = (EndpointPattern("localhost", ports=(server.port,), schemes=("http",)),)
        call = FakeCall(Capabilities.none().with_http(HttpCapability(allowlist=patterns)))
        networks = ("127.0.0.0/8", "::1/128")
        with EgressGateway(NetworkConfig(unsafe_allowed_networks=networks)) as gateway:
            asked = HttpRequest("GET", f"http://localhost:{server.port}/")
            assert gateway.fetch(call, asked).body == b"ok"


def test_a_ca_file_without_certificates_is_refused_when_the_gateway_is_created(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("-----BEGIN CERTIFICATE-----\nnone of that\n-----END CERTIFICATE-----\n")
    config = NetworkConfig(ca_file=path)
    with pytest.raises(ConfigurationError):
        EgressGateway(config)


def too_much(request: ReceivedRequest, connection: ServerConnection) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
    while not connection.closing.is_set():
        connection.send(b"x" * 65536)


def test_a_response_to_the_host_that_exceeds_a_bound_releases_its_connection(world: MakeWorld) -> None:
    w = world(too_much, max_connections=1)
    for _ in range(2):
        with pytest.raises(HttpFailure) as caught:
            w.gateway.send_own("GET", w.url(), (), None, timeout_seconds=10)
        assert caught.value.code == "response-too-large"


def endless(request: ReceivedRequest, connection: ServerConnection) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nfirst")
    connection.closing.wait()


def test_an_unread_response_releases_its_connection(world: MakeWorld) -> None:
    w = world(endless, max_connections=1)
    for _ in range(2):
        with w.gateway.open(w.call(), HttpRequest("GET", w.url(), timeout_seconds=10.0)) as response:
            assert response.status == 200


def test_a_partial_response_is_refused_recorded_and_releases_its_connection(world: MakeWorld) -> None:
    w = world(lambda request, connection: http_response(b"a part", status=206), max_connections=1)
    for _ in range(2):
        call = w.call(BEARER, secrets={"token": SECRET})
        with pytest.raises(HttpFailure) as caught:
            w.get(call=call, timeout_seconds=10.0)
        failure = caught.value
        assert (failure.code, failure.request_sent) == ("response-partial", True)
        assert failure.decision == call.decisions[-1]
        assert (failure.decision.allowed, failure.decision.reason) == (False, Reason.LEAK)
    assert w.get(call=w.call()).status == 206


def test_the_hosts_client_gets_unmodified_responses_until_a_secret_was_sent(world: MakeWorld) -> None:
    w = world(lambda request, connection: http_response(TOKEN.encode()))
    asked = HttpRequest("GET", w.url())
    with w.gateway.open(w.call(), asked, face=Face.HOST) as response:
        assert response.read_all() == TOKEN.encode()
    with w.gateway.open(w.call(), asked, face=Face.HOST) as response:
        assert b"".join(iter(response.read, b"")) == TOKEN.encode()
    with w.gateway.open(w.call(BEARER, secrets={"token": SECRET}), asked, face=Face.HOST) as response:
        assert response.read_all() == b"[REDACTED:github-pat]"
    with w.gateway.open(w.call(), asked) as response:
        assert response.read_all() == b"[REDACTED:github-pat]"
