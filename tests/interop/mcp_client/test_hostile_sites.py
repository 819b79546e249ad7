"""Hostile servers over HTTP: each call ends in time with a typed error and a receipt."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest
from wasmrt.testing import MemorySecrets

from tests.interop.mcp_client.hostile_http import Server, hostile_site
from tests.interop.mcp_client.world import World
from wasmrt.core.errors import ToolError
from wasmrt.core.model import Decision
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.interop.mcp.client import McpServerConfig, Trust
from wasmrt.interop.mcp.client._transport import open_client

# Case, and the permitted error codes of the call.
BROKEN = {
    "to-metadata": {"mcp-error", "host-not-allowed"},
    "to-neighbour": {"mcp-error", "port-not-allowed"},
    "to-somebody": {"mcp-error", "host-not-allowed"},
    "to-file": {"mcp-error", "invalid-url", "mcp-server"},
    "to-itself": {"mcp-error", "rate-limited"},
    "endless-comments": {"deadline-exceeded"},
    "endless-notices": {"mcp-protocol"},
    "endless-event": {"mcp-server", "mcp-protocol", "mcp-error", "response-too-large"},
    "drip": {"deadline-exceeded"},
    "huge-body": {"mcp-protocol"},
    "bomb": {"response-too-large", "mcp-server", "mcp-error"},
    "nan": {"mcp-protocol"},
    "many-blocks": {"mcp-protocol"},
    "many-names": {"mcp-protocol"},
    "other-id": {"mcp-protocol"},
    "no-json": {"mcp-protocol"},
    "html": {"mcp-error"},
    "error-500": {"mcp-error"},
    "accepted": {"mcp-error"},
    "forgotten": {"mcp-error"},
    "hangs-up": {"mcp-server"},
    "broken-stream": {"mcp-server", "mcp-error", "deadline-exceeded"},
    "login": {"mcp-login"},
    "login-later": {"mcp-login"},
    "sse-elsewhere": {"deadline-exceeded"},
}


@pytest.fixture
def site() -> Iterator[Server]:
    with hostile_site() as server:
        yield server


class WithSecrets(World):
    """A world with a secrets store, which logins need."""

    def __init__(self, server: McpServerConfig) -> None:
        super().__init__(server, secrets=MemorySecrets())


def server_at(url: str, **settings: object) -> McpServerConfig:
    given = {"name": "bad", "url": url, "trust": Trust.LOCAL, "timeout_seconds": 5.0} | settings
    return McpServerConfig(**given)  # type: ignore[arg-type]


@pytest.mark.ci("slow")
@pytest.mark.parametrize("case", BROKEN)
def test_a_protocol_violation_by_a_site_ends_the_call_with_a_receipt(site: Server, case: str) -> None:
    slow = case in ("endless-comments", "drip", "broken-stream", "sse-elsewhere")
    with WithSecrets(server_at(site.url(case), timeout_seconds=1.0 if slow else 20.0)) as world:
        with pytest.raises(ToolError) as failure:
            world.call()
        assert failure.value.code in BROKEN[case], failure.value.message
        assert [receipt.outcome for receipt in world.receipts] == [failure.value.code]
        assert "secret" not in failure.value.message
    assert {path for _, path in site.seen} <= {f"/{case}", "/.well-known/oauth-protected-resource"}


def test_a_local_server_cannot_redirect_to_another_local_port(site: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as neighbour:
        neighbour.setblocking(False)
        with World(server_at(site.url("to-neighbour"))) as world, pytest.raises(ToolError):
            world.call()
        with pytest.raises(BlockingIOError):
            neighbour.accept()


@pytest.mark.ci("slow")
def test_reconnects_requested_by_a_stream_are_limited(site: Server) -> None:
    with World(server_at(site.url("get-loop"))) as world:
        assert world.call() == "fine"
        asked, before, ends = 1, 0, time.monotonic() + 30
        while asked > before and time.monotonic() < ends:
            before = asked
            time.sleep(0.5)
            asked = sum(verb == "GET" for verb, _ in site.seen)
        assert asked == before, "it goes on"


@pytest.mark.parametrize("url", ["http://10.1.2.3/mcp", "ftp://a.test/", "https://u:p@a.test/", "http://a.test/mcp"])
def test_an_invalid_server_address_is_refused_in_the_file(url: str) -> None:
    with pytest.raises(Exception, match=r"https://|cannot be used"):
        server_at(url)


def test_a_remote_server_at_an_internal_address_is_not_reached() -> None:
    with World(server_at("https://169.254.169.254/mcp")) as world, pytest.raises(ToolError) as failure:
        world.call()
    assert failure.value.code == "address-not-allowed"


def test_a_timed_out_legacy_call_starts_a_new_session(site: Server) -> None:
    with World(server_at(site.url("drip"), timeout_seconds=0.6)) as world:
        for _ in range(2):
            with pytest.raises(ToolError) as failure:
                world.call()
            assert failure.value.code == "deadline-exceeded"


def test_an_idle_session_is_ended(site: Server) -> None:
    with World(server_at(site.url("fine")), idle_seconds=0.2) as world:
        assert world.call() == "fine"
        held = world.client._open["local"]
        ends = time.monotonic() + 10
        while held.opened is not None and time.monotonic() < ends:
            time.sleep(0.02)
        assert held.opened is None
        assert world.call() == "fine"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://127.0.0.1:{next}/", "port-not-allowed"),
        ("http://169.254.169.254/", "host-not-allowed"),
        ("https://attacker.example/", "host-not-allowed"),
        ("http://localhost:{port}/", "host-not-allowed"),
    ],
)
def test_a_client_reaches_only_its_servers_origin(site: Server, url: str, code: str) -> None:
    async def asked() -> int:
        client = open_client(server_at(site.url("fine")), NetworkConfig(), on_decision=decisions.append)
        try:
            port = site.server_address[1]
            return (await client.get(url.format(port=port, next=port % 65000 + 1))).status_code
        finally:
            await client.aclose()

    decisions: list[Decision] = []
    assert asyncio.run(asked()) == 403
    assert [str(decision.reason) for decision in decisions if not decision.allowed] == [code]
    assert site.seen == []
