"""DNS rebinding with the system's resolver: a guest never reaches a private server on the same port."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from wasmrt.core.errors import ToolError
from wasmrt.core.limits import MAX_DNS_ANSWERS

from .live import API, INSIDE, OUTSIDE, Live, live_web

# The answers of the name server, one for each lookup; the last is repeated. Then the outcome of each request.
REFUSED = "address-not-allowed"
ANSWERS: dict[str, tuple[list[list[str]], list[str]]] = {
    "public, then private": ([[OUTSIDE], [INSIDE]], ["arrived", REFUSED, REFUSED]),
    "private, then public": ([[INSIDE], [OUTSIDE]], [REFUSED, "arrived", "arrived"]),
    "public, private, public": ([[OUTSIDE], [INSIDE], [OUTSIDE]], ["arrived", REFUSED, "arrived"]),
    "public, then both": ([[OUTSIDE], [OUTSIDE, INSIDE]], ["arrived", REFUSED, REFUSED]),
    "public, then both, the private one first": ([[OUTSIDE], [INSIDE, OUTSIDE]], ["arrived", REFUSED, REFUSED]),
    "private behind many public ones": ([[*(f"93.184.216.{n}" for n in range(1, 30)), INSIDE]], [REFUSED]),
    "more addresses than are checked": ([[f"93.184.216.{n}" for n in range(MAX_DNS_ANSWERS + 1)]], ["no-address"]),
    "no address, then private": ([[], [INSIDE]], ["no-address", REFUSED]),
    "public, then no address": ([[OUTSIDE], []], ["arrived", "no-address"]),
    "public IPv4 and loopback IPv6": ([[OUTSIDE, "::1"]], [REFUSED]),
    "public, then IPv4 in IPv6": ([[OUTSIDE], [f"::ffff:{INSIDE}"]], ["arrived", REFUSED]),
    "public, then IPv4 in IPv6 of NAT64": ([[OUTSIDE], ["64:ff9b::7f00:2"]], ["arrived", REFUSED]),
    "public, then IPv4 in IPv6 of 6to4": ([[OUTSIDE], ["2002:7f00:2::1"]], ["arrived", REFUSED]),
    "public, then link-local with a scope": ([[OUTSIDE], ["fe80::1%lo"]], ["arrived", REFUSED]),
    "public, then unspecified": ([[OUTSIDE], ["0.0.0.0"]], ["arrived", REFUSED]),
    "public, then unspecified IPv6": ([[OUTSIDE], ["::"]], ["arrived", REFUSED]),
    "public, then the metadata service": ([[OUTSIDE], ["169.254.169.254"]], ["arrived", REFUSED]),
    "public, then a broadcast": ([[OUTSIDE], ["255.255.255.255"]], ["arrived", REFUSED]),
}  # fmt: skip


class NameServer:
    """Takes the place of the system's name service, with a TTL of 0 for every answer."""

    def __init__(self) -> None:
        self.answers: list[list[str]] = []
        self.lookups = 0
        self.alias = ""

    def look_up(self, host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        found = self.answers[min(self.lookups, len(self.answers) - 1)]
        self.lookups += 1
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, self.alias, (address, port)) for address in found]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_web(tmp_path_factory.mktemp("live"), None) as live:
        yield live


@pytest.fixture
def live(served: Live) -> Live:
    served.clear()
    served.api.drop_connections()
    return served


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> NameServer:
    names = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", names.look_up)
    return names


@pytest.fixture
def private(live: Live) -> Iterator[socket.socket]:
    """Listen at the private address, on the port of the API."""
    with socket.create_server((INSIDE, live.api.port)) as listener:
        listener.setblocking(False)
        yield listener
        with pytest.raises(BlockingIOError):
            listener.accept()


def outcome(live: Live) -> str:
    try:
        live.ask(live.url(f"https://{API}:{{api}}/api/private/x"))
    except ToolError as error:
        return str(next(each.reason for each in error.decisions if not each.allowed))
    return "arrived"


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("alias", ["", "inside.example"], ids=["an address", "an alias"])
@pytest.mark.parametrize("case", ANSWERS)
def test_every_answer_is_checked_and_only_a_checked_address_is_used(
    live: Live, names: NameServer, case: str, alias: str
) -> None:
    names.answers, expected = ANSWERS[case]
    names.alias = alias
    assert [outcome(live) for _ in expected] == expected
    assert names.lookups == len(expected), "a request looks its host up once"
    assert len(live.api.requests) == expected.count("arrived")


@pytest.mark.usefixtures("private")
def test_an_answer_that_changes_between_check_and_connection_has_no_effect(live: Live, names: NameServer) -> None:
    names.answers = [[OUTSIDE], [INSIDE]]  # the second lookup of the same request would get the private address
    assert outcome(live) == "arrived"
    assert names.lookups == 1


@pytest.mark.usefixtures("private")
def test_a_kept_connection_does_not_outlive_its_answer(live: Live, names: NameServer) -> None:
    names.answers = [[OUTSIDE], [INSIDE], [OUTSIDE]]
    before = live.api.connections
    assert [outcome(live) for _ in range(3)] == ["arrived", "address-not-allowed", "arrived"]
    assert live.api.connections <= before + 1, "the checked address is used again"
