"""The system resolver's limits on concurrent lookups and their duration."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from wasmrt.testing import FakeCall, ScriptedServer, http_response

import wasmrt.egress.gateway._network as resolver_file
from tests.runtime.call.conftest import until
from wasmrt.capabilities import Capabilities, EndpointPattern, HttpCapability
from wasmrt.egress.gateway import EgressGateway, HttpRequest, NetworkConfig, ResolveError, SystemResolver


def addresses(*found: str) -> list[tuple[Any, ...]]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in found]


def test_every_address_is_returned_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses("192.0.2.2", "192.0.2.1", "192.0.2.2"))
    assert SystemResolver().resolve("a.example", 443, timeout_seconds=10) == ("192.0.2.2", "192.0.2.1")


@pytest.mark.parametrize("error", [OSError("no"), UnicodeError("no")])
def test_a_name_without_an_address_is_unknown(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(ResolveError, match="unknown"):
        SystemResolver().resolve("a.example", 443, timeout_seconds=10)


def test_a_name_with_too_many_addresses_is_reported_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses("192.0.2.1", "192.0.2.2", "192.0.2.3"))
    monkeypatch.setattr(resolver_file, "MAX_DNS_ANSWERS", 2)
    with pytest.raises(ResolveError, match="the host name has 3 addresses, and at most 2 are checked"):
        SystemResolver().resolve("a.example", 443, timeout_seconds=10)


def test_a_hanging_lookup_keeps_its_slot_and_the_next_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hang(*_: Any, **__: Any) -> Any:
        release.wait()
        return addresses("192.0.2.1")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setattr(resolver_file, "MAX_DNS_LOOKUPS", 1)
    resolver = SystemResolver()
    with pytest.raises(ResolveError, match="did not respond in time"):
        resolver.resolve("slow.example", 443, timeout_seconds=0.01)
    with pytest.raises(ResolveError, match="too many name lookups"):
        resolver.resolve("other.example", 443, timeout_seconds=0.01)
    release.set()
    assert resolver.resolve("other.example", 443, timeout_seconds=10) == ("192.0.2.1",)


def test_without_a_thread_no_lookup_runs_and_no_slot_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(resolver_file, "MAX_DNS_LOOKUPS", 1)
    resolver = SystemResolver()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(ResolveError, match="no thread is available"):
            resolver.resolve("a.example", 443, timeout_seconds=10)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses("192.0.2.1"))
    assert resolver.resolve("a.example", 443, timeout_seconds=10) == ("192.0.2.1",)
    until(lambda: resolver._slots.all_free)


def test_a_gateway_uses_the_systems_resolver_by_default() -> None:
    served = NetworkConfig(unsafe_allowed_networks=("127.0.0.0/8", "::1/128"))
    with ScriptedServer(lambda request, connection: http_response(b"x")) as server, EgressGateway(served) as gateway:
        entry = EndpointPattern("localhost", ports=(server.port,), schemes=("http",))
        call = FakeCall(Capabilities.none().with_http(HttpCapability(allowlist=(entry,))))
        assert gateway.fetch(call, HttpRequest("GET", f"http://localhost:{server.port}/")).body == b"x"
