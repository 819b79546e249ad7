"""Failures between the allowlist and the response: rates, secrets, the retry, matches in a response."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from wasmrt.testing import FakeCall, FakeResolver, ReceivedRequest, ServerConnection, http_response

from wasmrt.capabilities import Capabilities, CredentialLocation, CredentialMapping, EndpointPattern
from wasmrt.core.errors import ConfigurationError, SecretBackendError
from wasmrt.core.model import Reason
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpRequest, NetworkConfig, WholeBody, WireResponse
from wasmrt.egress.leaks import Action, LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.egress.secrets import Secret
from wasmrt.sandbox.component.worlds import FailureKind

from .world import HOST, MakeWorld

SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
BEARER = CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(HOST,))


def ok(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(b"ok")


def test_an_unavailable_rate_store_stops_all_requests(world: MakeWorld) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        w = world(ok, rates=RateLimiter(redis_url=f"redis://127.0.0.1:{unused.getsockname()[1]}/0"))
        with pytest.raises(HttpFailure) as caught:
            w.get()
    assert (caught.value.kind, caught.value.code) == (FailureKind.EXECUTOR, "rate-store")
    assert w.server.connections == 0


class Locked:
    """Secrets whose backend cannot be opened."""

    def get(self, name: str) -> Secret:
        raise SecretBackendError("the keyring is locked", hint="unlock it")

    def exists(self, name: str) -> bool:
        raise SecretBackendError("the keyring is locked")

    def renewed(self, name: str) -> Secret | None:
        return None

    def hint_to_set(self, name: str) -> str:
        raise SecretBackendError("the keyring is locked")


def test_unreadable_secrets_stop_the_request_and_are_an_executor_failure(world: MakeWorld) -> None:
    w = world(ok)
    call = w.call(BEARER)
    call.secrets = Locked()
    with pytest.raises(HttpFailure) as caught:
        w.get(call=call)
    failure = caught.value
    assert (failure.kind, failure.code, failure.hint) == (FailureKind.EXECUTOR, "secret-backend", "unlock it")
    assert failure.message == "the secret token cannot be read"
    assert failure.decision is None
    assert all(decision.allowed for decision in call.decisions)
    assert w.server.requests == []


class Renewed:
    """A token that the server refuses, and a newer one."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, name: str) -> Secret:
        return Secret(SECRET)

    def exists(self, name: str) -> bool:
        return True

    def renewed(self, name: str) -> Secret | None:
        self.asked.append(name)
        return Secret("the-newer-" + SECRET)

    def hint_to_set(self, name: str) -> str:
        return f"store {name} elsewhere"


def refuse_old(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    newer = "newer" in (request.header("Authorization") or "")
    return http_response(b"welcome" if newer else b"go away", status=200 if newer else 401)


@pytest.mark.parametrize(("left", "status", "requests"), [(2, 200, 2), (1, 401, 1)])
def test_a_retry_counts_against_the_calls_request_budget(
    world: MakeWorld, left: int, status: int, requests: int
) -> None:
    w = world(refuse_old)
    call = w.call(BEARER)
    call.secrets = Renewed()
    call.requests_left = left
    assert w.get(call=call).status == status
    assert len(w.server.requests) == requests


class Failing(Renewed):
    """A token that the server refuses, with a newer one that cannot be sent."""

    def __init__(self, newer: Secret | BaseException) -> None:
        super().__init__()
        self._newer = newer

    def renewed(self, name: str) -> Secret | None:
        if isinstance(self._newer, BaseException):
            raise self._newer
        return self._newer


@pytest.mark.parametrize(
    ("newer", "expected"),
    [(Secret("abc"), HttpFailure), (KeyboardInterrupt(), KeyboardInterrupt)],
    ids=["too short", "interrupted"],
)
def test_a_failed_retry_releases_the_connection_of_the_first_attempt(
    world: MakeWorld, newer: Secret | BaseException, expected: type[BaseException]
) -> None:
    w = world(refuse_old, max_connections=1)
    call = w.call(BEARER)
    call.secrets = Failing(newer)
    with pytest.raises(expected) as caught:
        w.get(call=call)
    if isinstance(caught.value, HttpFailure):
        assert caught.value.code == "credential-unusable"
        assert caught.value.hint == "set a longer one; store token elsewhere"
    assert len(w.server.requests) == 1
    assert w.get(call=w.call(), timeout_seconds=5.0).status == 401  # it does not wait


def test_a_store_that_fails_to_renew_leaves_the_refusal_unchanged(world: MakeWorld) -> None:
    w = world(refuse_old)
    call = w.call(BEARER)
    call.secrets = Failing(SecretBackendError("the keyring is locked"))
    response = w.get(call=call)
    assert (response.status, response.body) == (401, b"go away")
    assert len(w.server.requests) == 1


def test_a_401_for_a_request_without_a_credential_is_passed_on(world: MakeWorld) -> None:
    w = world(refuse_old)
    call = w.call()
    call.secrets = None
    assert w.get(call=call).status == 401
    watched = w.call()
    watched.secrets = renewed = Renewed()
    assert w.get(call=watched).status == 401
    assert renewed.asked == []


def test_a_guests_own_agent_and_accept_replace_the_defaults(world: MakeWorld) -> None:
    w = world(ok)
    w.get()
    w.get(headers=(("user-agent", "a tool"), ("ACCEPT", "text/plain")))
    default, own = w.server.requests
    assert (default.header("User-Agent"), default.header("Accept")) == ("wasmrt", "*/*")
    assert (own.header("User-Agent"), own.header("Accept")) == ("a tool", "text/plain")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("X-RateLimit-Remaining-Tokens", True),
        ("anthropic-rate-limit-tokens-reset", True),
        ("X-Vendor-Auth", False),
        ("X-Auth-Token", False),
        ("Set-Cookie", False),
    ],
)
def test_a_header_that_counts_tokens_is_distinguished_from_a_token(world: MakeWorld, name: str, shown: bool) -> None:
    w = world(lambda request, connection: http_response(headers=((name, "12"),)))
    assert [n for n, _ in w.get().headers if n.lower() == name.lower()] == ([name] if shown else [])


def test_a_blocking_match_withholds_the_body(world: MakeWorld) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"
    w = world(lambda request, connection: http_response(f"it is {token}".encode()))
    strict = LeakDetector(overrides={"github-pat": Action.BLOCK}).scanner()
    call = w.call()
    call.scanner = strict
    with pytest.raises(HttpFailure) as caught:
        w.get(call=call)
    assert (caught.value.code, caught.value.request_sent) == ("response-leak", True)
    assert call.decisions[-1].reason is Reason.LEAK
    assert token not in repr((caught.value, call.decisions))


def test_a_secret_split_over_four_headers_is_removed(world: MakeWorld) -> None:
    pieces = (SECRET[:6], SECRET[6:12], SECRET[12:18], SECRET[18:])
    headers = tuple((f"X-{n}", piece) for n, piece in enumerate(pieces))
    w = world(lambda request, connection: http_response(headers=(("ETag", '"1"'), *headers)))
    assert w.get(call=w.call(BEARER, secrets={"token": SECRET})).headers[:1] == (("ETag", '"1"'),)
    shown = w.get(call=w.call(BEARER, secrets={"token": SECRET})).headers
    assert [name for name, _ in shown if name.startswith("X-")] == []


def test_a_format_that_only_appears_in_joined_values_is_ignored(world: MakeWorld) -> None:
    halves = (("X-A", "ghp_" + "a1B2c3D4e5"), ("X-B", "a1B2c3D4e5" * 2 + "F6g7h8"))
    w = world(lambda request, connection: http_response(headers=halves))
    shown = w.get(call=w.call(BEARER, secrets={"token": SECRET})).headers
    assert [pair for pair in shown if pair[0].startswith("X-")] == list(halves)


# -- settings of operators and embedding programs ----------------------------------------------------------------------


class Canned:
    """A transport of an embedding program."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.asked: list[tuple[str, Sequence[str]]] = []

    def send(self, request: Any, addresses: Sequence[str], budget: Any) -> WireResponse:
        self.asked.append((request.target, tuple(addresses)))
        return WireResponse(200, ((b"X-From", b"a can"),), WholeBody(self.body))

    def close(self) -> None:
        pass


@pytest.mark.parametrize("body", [b"", b"canned"])
def test_a_custom_transport_only_gets_checked_requests(body: bytes) -> None:
    transport = Canned(body)
    resolver = FakeResolver({HOST: ["93.184.216.34"], "inside.example.com": ["10.0.0.1"]})
    call = FakeCall(
        Capabilities.none().with_http([EndpointPattern.host(HOST), EndpointPattern.host("inside.example.com")])
    )
    with EgressGateway(NetworkConfig(resolver=resolver, transport=transport)) as gateway:
        answer = gateway.fetch(call, HttpRequest("GET", f"https://{HOST}/a?b=c"))
        with pytest.raises(HttpFailure):
            gateway.fetch(call, HttpRequest("GET", "https://inside.example.com/"))
    assert (answer.headers, answer.body) == ((("X-From", "a can"),), body)
    assert transport.asked == [("/a?b=c", ("93.184.216.34",))]


@pytest.mark.parametrize("ca_file", ["ca.pem", b"ca.pem", 3])
def test_a_ca_file_must_be_a_path(ca_file: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"pathlib\.Path"):
        NetworkConfig(ca_file=ca_file)
    assert NetworkConfig(ca_file=None).ca_file is None
    with pytest.raises(ConfigurationError):
        NetworkConfig(ca_file=Path("not-there.pem"))
