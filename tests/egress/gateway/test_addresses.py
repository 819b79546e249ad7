"""Addresses to which connections are made: the ssrf corpus and DNS rebinding, through the whole gateway."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from wasmrt.testing import FakeCall, FakeResolver, ReceivedRequest, ScriptedServer, ServerConnection, http_response

from wasmrt.capabilities import Capabilities, EndpointPattern
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Reason
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpRequest, NetworkConfig, ResolveError, SystemResolver
from wasmrt.egress.gateway import _pools as pools
from wasmrt.egress.rates import RateLimiter
from wasmrt.sandbox.component.worlds import FailureKind

from .world import HOST, MakeWorld

CORPUS = Path(__file__).with_name("addresses.jsonl")
"""URLs and DNS answers with the expected decision: special-purpose networks, spellings, parser differentials."""


class AnyName:
    """Resolves every name to the same addresses."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        return self._addresses


class Wire:
    """Replaces the connecting of sockets: records the address, and connects to a loopback server instead."""

    def __init__(self, real: Callable[..., object]) -> None:
        self._real = real
        self.dialled: list[str] = []
        self.server: ScriptedServer | None = None

    def dial(self, address: str, port: int, host: str, tls: object, exchange: object, limit: float) -> object:
        self.dialled.append(address)
        assert self.server is not None
        return self._real("127.0.0.1", self.server.port, host, None, exchange, limit)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    # SECURITY: tests only send to loopback, even if an address is public and allowed.
    wire = Wire(pools.dial)
    monkeypatch.setattr(pools, "dial", wire.dial)
    return wire


def grant_for(row: dict[str, object], urls: Sequence[str]) -> Capabilities:
    """Allow every host and port that a naive reader of the URL would connect to."""
    patterns = []
    for host in row["allowlist"]:  # type: ignore[attr-defined]
        for url in urls:
            try:
                ports = (urlsplit(url).port,) if urlsplit(url).port else ()
                patterns.append(EndpointPattern(str(host), ports=ports, schemes=("https", "http")))
            except (ConfigurationError, ValueError):
                continue  # a host that cannot be granted cannot be reached either
    return Capabilities.none().with_http(tuple(dict.fromkeys(patterns)))


def outcome(row: dict[str, object], wire: Wire) -> str:
    hops = [str(row["url"]), *map(str, row.get("redirects", ()))]  # type: ignore[call-overload]
    locations = iter(hops[1:])

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        location = next(locations, None)
        if location is None:
            return http_response(b"reached")
        return http_response(status=302, headers=(("Location", location.replace("\r\n", "%0d%0a")),))

    answers = row.get("resolves_to") or ()
    with ScriptedServer(script) as server:
        wire.server = server
        with EgressGateway(NetworkConfig(resolver=AnyName(answers)), rates=RateLimiter()) as gateway:  # type: ignore[arg-type]
            call = FakeCall(grant_for(row, hops))
            try:
                for hop in hops:
                    gateway.fetch(call, HttpRequest("GET", hop))
            except HttpFailure as failure:
                assert failure.kind in (FailureKind.NETWORK_DENIED, FailureKind.OPERATION_FAILED)
                assert failure.decision is not None and not failure.decision.allowed
                return "deny"
    return "allow"


@pytest.mark.ci("slow")
def test_every_row_of_the_ssrf_corpus_gets_the_expected_decision(wire: Wire) -> None:
    rows = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
    wrong = []
    for row in rows:
        before = len(wire.dialled)
        if outcome(row, wire) != row["expect"]:
            wrong.append(row)
        if row["expect"] == "deny" and "redirects" not in row:
            assert len(wire.dialled) == before, row
    assert len(rows) > 600
    assert wrong == []


def test_a_dns_change_after_the_check_has_no_effect(wire: Wire) -> None:
    resolver = FakeResolver({HOST: [["93.184.216.34"], ["127.0.0.1"], ["10.0.0.1"]]})
    with ScriptedServer(lambda r, c: http_response(b"x")) as server:
        wire.server = server
        with EgressGateway(NetworkConfig(resolver=resolver)) as gateway:
            call = FakeCall(Capabilities.none().with_http([EndpointPattern(HOST)]))
            gateway.fetch(call, HttpRequest("GET", f"https://{HOST}/"))
            assert resolver.asked == [HOST]
            assert wire.dialled == ["93.184.216.34"]
            # The kept connection still leads to the public address, but the new DNS answer is checked.
            for _ in range(2):
                with pytest.raises(HttpFailure) as caught:
                    gateway.fetch(call, HttpRequest("GET", f"https://{HOST}/"))
                assert caught.value.code == "address-not-allowed"
    assert wire.dialled == ["93.184.216.34"]


def test_one_forbidden_address_among_allowed_ones_denies_the_request(wire: Wire) -> None:
    for answers in (["93.184.216.34", "169.254.169.254"], ["::ffff:10.0.0.1", "93.184.216.34"], [], ["nonsense"]):
        with EgressGateway(NetworkConfig(resolver=AnyName(answers))) as gateway:
            call = FakeCall(Capabilities.none().with_http([EndpointPattern(HOST)]))
            with pytest.raises(HttpFailure) as caught:
                gateway.fetch(call, HttpRequest("GET", f"https://{HOST}/"))
        assert caught.value.decision is not None
        assert caught.value.decision.reason in (Reason.ADDRESS_NOT_ALLOWED, Reason.NO_ADDRESS)
    assert wire.dialled == []


def test_a_connection_is_only_reused_for_the_address_it_was_checked_for(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"x"), answers={HOST: [["127.0.0.1"], ["127.0.0.5"], ["127.0.0.1"]]})
    w.get()
    with pytest.raises(HttpFailure, match="could not be reached"):  # no server listens there, so nothing can be reused
        w.get()
    w.get()
    assert w.server.connections == 1


def test_loopback_is_only_reachable_if_an_operator_exempts_it(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"x"), networks=())
    for host in ("127.0.0.1", HOST):
        with pytest.raises(HttpFailure) as caught:
            w.gateway.fetch(w.call(), HttpRequest("GET", w.url(host=host)))
        assert caught.value.code == "address-not-allowed"
        assert "unsafe_allowed_networks" in str(caught.value.hint)
    assert w.server.connections == 0


def test_proxy_variables_are_ignored(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    w = world(lambda r, c: http_response(b"direct"))
    assert w.get().body == b"direct"


def test_tls_keys_are_never_written_to_a_file(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    w = world(lambda r, c: http_response(b"x"))
    assert w.get().body == b"x"
    file = tmp_path / "keys"
    assert [line for line in (file.read_text().splitlines() if file.exists() else ()) if not line.startswith("#")] == []


@pytest.mark.parametrize("networks", [("not a network",), ("10.0.0.1/8",)])
def test_an_invalid_network_raises_configuration_error(networks: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError):
        NetworkConfig(unsafe_allowed_networks=networks)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    release = threading.Event()

    def getaddrinfo(*args: object, **kwargs: object) -> list[object]:
        release.wait(30)
        return []

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    yield release
    release.set()


def test_an_unresponsive_name_server_does_not_delay_a_call_past_its_deadline(stuck: threading.Event) -> None:
    with EgressGateway(NetworkConfig(resolver=SystemResolver())) as gateway:
        call = FakeCall(Capabilities.none().with_http([EndpointPattern(HOST)]), timeout_seconds=0.2)
        with pytest.raises(HttpFailure) as caught:
            gateway.fetch(call, HttpRequest("GET", f"https://{HOST}/"))
    assert caught.value.code == "deadline-exceeded"


def test_the_system_resolver_resolves_localhost_and_rejects_invalid_names() -> None:
    resolver = SystemResolver()
    assert "127.0.0.1" in resolver.resolve("localhost", 443, timeout_seconds=10)
    with pytest.raises(ResolveError):
        resolver.resolve("a" * 70 + ".invalid", 443, timeout_seconds=10)


def test_every_public_host_reaches_no_exempted_network(world: MakeWorld) -> None:
    w = world(lambda request, connection: http_response(b"internal"), networks=("127.0.0.0/8",))
    ports = (w.server.port,)
    anywhere = replace(EndpointPattern.any_public_host(), ports=ports)
    for entries, reached in (([anywhere], 0), ([anywhere, EndpointPattern(HOST, ports=ports)], 1)):
        call = FakeCall(Capabilities.none().with_http(entries))
        for url in (w.url("/"), f"https://127.0.0.1:{w.server.port}/"):
            with suppress(HttpFailure):
                w.gateway.fetch(call, HttpRequest("GET", url))
        assert len(w.server.requests) == reached
