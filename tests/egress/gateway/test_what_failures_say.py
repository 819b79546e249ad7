"""Failures name the origin and the next step, and never a path, a query or a secret."""

from __future__ import annotations

import dataclasses

import pytest
from wasmrt.testing import FakeCall, FakeResolver, ReceivedRequest, ServerConnection, http_response

from wasmrt.capabilities import Capabilities, EndpointPattern
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpRequest, NetworkConfig
from wasmrt.egress.rates import RateLimiter

from .world import HOST, MakeWorld, World

TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"


def silent(request: ReceivedRequest, connection: ServerConnection) -> None:
    connection.closing.wait(30)


def no_http(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    connection.keep_alive = False
    return b"SSH-2.0-x\r\n\r\n"


def breaks_off(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    connection.keep_alive = False
    return http_response(b"half", length=100)


def failed(w: World, call: FakeCall | None = None, **request: object) -> HttpFailure:
    with pytest.raises(HttpFailure) as caught:
        w.get("/the/path?the=query", call, **request)
    assert "/the" not in caught.value.message and "query" not in caught.value.message
    return caught.value


def origin(w: World) -> str:
    return f"https://{HOST}:{w.server.port}"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (no_http, "the response of {} is not valid HTTP"),
        (breaks_off, "the connection to {} broke before the response was complete"),
    ],
    ids=["not HTTP", "broken off"],
)
def test_a_failed_exchange_names_the_origin(world: MakeWorld, script, said: str) -> None:  # type: ignore[no-untyped-def]
    w = world(script)
    assert failed(w).message == said.format(origin(w))


def test_an_unknown_host_is_named(world: MakeWorld) -> None:
    w = world(silent, answers={HOST: ["127.0.0.2"]})
    failure = failed(w)
    assert failure.message == f"{origin(w)} could not be reached: no address accepted a connection"
    assert failure.hint == "check that the server runs and that this machine is online"


def test_a_timeout_names_its_setting_and_value(world: MakeWorld) -> None:
    w = world(silent)
    granted = failed(w, w.call(timeout_seconds=30), timeout_seconds=0.05)
    assert granted.message == f"{origin(w)} did not respond in time (0.05 s)"
    assert granted.hint == "the tool itself set this timeout; http.timeout_seconds allows 30"
    grant = w.call().grant
    assert grant.http is not None
    call = FakeCall(grant.with_http(dataclasses.replace(grant.http, timeout_seconds=0.05)))
    for asked in (None, 300.0):
        failure = failed(w, call, timeout_seconds=asked)
        assert failure.message == f"{origin(w)} did not respond in time (0.05 s)"
        assert failure.hint == "raise http.timeout_seconds, now 0.05"


def test_a_slow_request_by_the_host_names_the_origin_and_no_grant(world: MakeWorld) -> None:
    w = world(silent)
    with pytest.raises(HttpFailure) as caught:
        w.gateway.send_own("POST", w.url("/token?x"), (), b"body", timeout_seconds=0.05)
    assert (caught.value.code, caught.value.hint) == ("timeout", None)
    assert caught.value.message == f"{origin(w)} did not respond in time (0.05 s)"


def test_a_too_large_response_names_the_setting_and_its_value(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"x" * 2000))
    call = w.call(max_response_bytes=1000)
    failure = failed(w, call)
    assert failure.message == f"the response of {origin(w)} has more than 1000 bytes"
    assert failure.hint == "raise http.max_response_bytes, now 1000"
    told = call.decisions[-1]
    assert (told.reason, told.hint, told.subject) == (Reason.RESPONSE_TOO_LARGE, failure.hint, origin(w))


def test_a_too_large_request_names_the_setting_and_its_value(world: MakeWorld) -> None:
    w = world(silent)
    call = w.call(max_request_bytes=100)
    failure = failed(w, call, body=b"x" * 101)
    assert failure.hint == "send less, or raise http.max_request_bytes, now 100"
    assert call.decisions[-1].subject == f"GET {origin(w)}/the/path"


def denied(url: str, networks: tuple[str, ...] = (), grant: Capabilities | None = None) -> Decision:
    call = FakeCall(grant or Capabilities.none().with_http([EndpointPattern(HOST)]))
    config = NetworkConfig(unsafe_allowed_networks=networks, resolver=FakeResolver({}))
    with EgressGateway(config, rates=RateLimiter()) as gateway, pytest.raises(HttpFailure) as caught:
        gateway.fetch(call, HttpRequest("GET", url))
    assert caught.value.decision is not None and caught.value.hint == caught.value.decision.hint
    assert call.decisions == [caught.value.decision]
    return caught.value.decision


@pytest.mark.parametrize("grant", [None, Capabilities.none()], ids=["another host", "nothing"])
@pytest.mark.parametrize("host", ["10.0.0.7", "169.254.169.254", "127.0.0.1", "[::1]", "metadata.google.internal"])
def test_a_denial_for_an_internal_host_only_suggests_a_line_that_helps(host: str, grant: Capabilities | None) -> None:
    decision = denied(f"https://{host}/x", grant=grant)
    assert decision.reason is (Reason.HOST_NOT_ALLOWED if grant is None else Reason.NOT_GRANTED)
    assert str(decision.hint).startswith("no capability file can allow it; ")
    exempt = denied(f"https://{host}/x", ("0.0.0.0/0", "::/0"), grant)
    assert str(exempt.hint).startswith("add ")


def test_an_invalid_url_is_shown_without_possible_secrets() -> None:
    decision = denied(f"https://{HOST}:0/{TOKEN[:9]}\x00{TOKEN[9:]}/\x1b[31mx?query")
    assert decision.reason is Reason.INVALID_URL
    assert decision.subject.startswith(f"GET https://{HOST}:0/") and decision.subject.endswith("/[31mx")
    assert TOKEN not in repr(decision) and TOKEN[:9] not in repr(decision) and TOKEN[9:] not in repr(decision)
    long = denied(f"https://{HOST}:0/" + "x" * 150 + TOKEN + "y/" * 9000)
    assert len(long.subject) < 250 and TOKEN[:9] not in long.subject
    assert denied("https://me:pa/s?s@wrd#x").subject == "GET https://..."
