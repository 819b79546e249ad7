"""wasi:http from real guests, in Rust, Python and JavaScript's `fetch`, to a real HTTPS server on loopback."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
import trustme
from wasmrt.testing import FakeResolver, MemorySecrets, ReceivedRequest, ScriptedServer, ServerConnection, http_response

from wasmrt.capabilities import Capabilities, CredentialLocation, CredentialMapping, EndpointPattern, HttpCapability
from wasmrt.core.errors import GuestError, ToolError
from wasmrt.core.limits import KIB, MAX_STREAM_CHUNK_BYTES, MIB, ResourceLimits
from wasmrt.core.model import Reason, ToolOutput
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.secrets import Secret
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.guest.settings import OptLevel

HOST = "api.example.com"
TOKEN = "-".join(("tk", "7f3a9c", "loopback", "e81d04", "only"))
PLAIN = ("rust-http", "python-http")
"""They call the package themselves, so its words reach the test."""
GUESTS = (*PLAIN, "starlingmonkey-fetch")
LIMITS = ResourceLimits(timeout_seconds=30, fuel=20_000_000_000, memory_bytes=128 * MIB)


def _answer(request: ReceivedRequest, connection: ServerConnection) -> bytes | None:
    """What the server says, by path."""
    match request.target.partition("?")[0]:
        case "/echo":
            return http_response(f"{request.method} {len(request.body)} {request.body[:40]!r}".encode())
        case "/mirror":
            return http_response(request.head)
        case "/big":
            return http_response(b"y" * int(request.target.partition("?")[2]))
        case "/pieces":
            connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(50):
                connection.send(b"400\r\n" + b"z" * 1024 + b"\r\n")
            connection.send(b"0\r\n\r\n")
        case "/redirect":
            return http_response(status=302, headers=(("Location", "https://evil.example.com/"),))
        case "/silent":
            connection.closing.wait(30)
            connection.keep_alive = False
        case _:
            return http_response(b"not found", status=404, headers=(("X-Twice", "1"), ("x-twice", "2")))
    return None


@dataclass
class World:
    """A server and a runtime whose tools may reach it."""

    server: ScriptedServer
    runtime: WasmToolRuntime
    component: Callable[[str], bytes]

    def tool(
        self, name: str, *, granted: bool = True, limits: ResourceLimits = LIMITS, **http: Any
    ) -> Callable[..., ToolOutput]:
        grant = Capabilities.none()
        if granted:
            pattern = EndpointPattern(HOST, ports=(self.server.port,))
            grant = grant.with_http(HttpCapability(allowlist=(pattern,), **http))
        prepared = self.runtime.prepare(name, self.component(name), grant, limits)
        return lambda path, **params: self._ask(prepared, name, path, params)

    def _ask(self, tool: PreparedTool, name: str, path: str, params: dict[str, Any]) -> ToolOutput:
        host = params.pop("host", HOST)
        if name in PLAIN:
            return tool.execute({"authority": f"{host}:{self.server.port}", "path": path, **params})
        count = params.pop("body_bytes", 0)
        asked = {"url": f"https://{host}:{self.server.port}{path}", **params}
        return tool.execute(asked | ({"pieces": count // 4096} if count else {}))


@pytest.fixture(scope="module")
def world(guest: Callable[[str], bytes], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("wasi-http")
    authority = trustme.CA()
    ca_file = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(tls)
    secrets = MemorySecrets()
    secrets.set("local", "api_token", Secret(TOKEN))
    network = NetworkConfig(
        unsafe_allowed_networks=("127.0.0.0/8",), resolver=FakeResolver({HOST: ["127.0.0.1"]}), ca_file=ca_file
    )
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedServer(_answer, tls=tls))
        config = WasmRuntimeConfig(
            network=network, secrets=secrets, cache_dir=folder / "cache", optimization_level=OptLevel.NONE
        )
        runtime = stack.enter_context(WasmToolRuntime(config))
        yield World(server, runtime, guest)


@pytest.mark.parametrize("name", GUESTS)
def test_a_guest_receives_the_servers_response(world: World, name: str) -> None:
    output = world.tool(name)("/missing?q=1")
    assert (output.result["status"], output.result["body"]) == (404, "not found")
    twice = [value for header, value in output.result["headers"] if header.lower() == "x-twice"]
    assert twice in (["1", "2"], ["1, 2"])
    assert [(decision.allowed, decision.capability) for decision in output.decisions] == [(True, "http")]
    assert output.usage.http_requests == 1


@pytest.mark.parametrize("name", GUESTS)
def test_a_body_reaches_the_server(world: World, name: str) -> None:
    output = world.tool(name)("/echo", method="POST", body="over there")
    assert output.result["body"] == "POST 10 b'over there'"


@pytest.mark.parametrize("name", GUESTS)
def test_a_body_written_in_pieces_arrives_completely(world: World, name: str) -> None:
    output = world.tool(name)("/echo", method="POST", body_bytes=50 * 4096)
    assert output.result["body"].startswith(f"POST {50 * 4096} b'xxxx")


@pytest.mark.parametrize("name", GUESTS)
def test_a_response_is_read_in_limited_pieces(world: World, name: str) -> None:
    output = world.tool(name)(f"/big?{MIB}")
    assert output.result["body_bytes"] == MIB
    assert 0 < output.result["largest"] <= MAX_STREAM_CHUNK_BYTES
    assert world.tool(name)("/pieces").result["body_bytes"] == 50 * KIB


@pytest.mark.parametrize("name", GUESTS)
def test_a_too_large_request_body_is_not_sent_and_is_recorded(world: World, name: str) -> None:
    before = len(world.server.requests)
    # StarlingMonkey traps on the stream's error; the record says why in any case.
    with pytest.raises(ToolError) as caught:
        world.tool(name, max_request_bytes=64 * KIB)("/echo", method="POST", body_bytes=20 * 4096)
    assert [decision.reason for decision in caught.value.decisions] == [Reason.REQUEST_TOO_LARGE]
    assert len(world.server.requests) == before


def test_a_too_large_request_body_is_reported_with_its_limit(world: World) -> None:
    with pytest.raises(GuestError, match=r"HttpRequestBodySize\(Some\(65536\)\)"):
        world.tool("rust-http", max_request_bytes=64 * KIB)("/echo", method="POST", body_bytes=20 * 4096)


@pytest.mark.parametrize("name", GUESTS)
def test_a_too_large_response_is_an_error_and_is_recorded(world: World, name: str) -> None:
    with pytest.raises(GuestError) as caught:
        world.tool(name, max_response_bytes=64 * KIB)(f"/big?{65 * KIB}")
    assert Reason.RESPONSE_TOO_LARGE in [decision.reason for decision in caught.value.decisions]
    if name in PLAIN:
        assert re.search(r"HttpResponseBodySize.*65536", str(caught.value))


@pytest.mark.parametrize("name", GUESTS)
def test_a_host_that_is_not_granted_is_denied_with_a_hint(world: World, name: str) -> None:
    with pytest.raises(GuestError) as caught:
        world.tool(name)("/x", host="other.example.com")
    (decision,) = caught.value.decisions
    assert (decision.allowed, decision.reason) == (False, Reason.HOST_NOT_ALLOWED)
    assert "other.example.com" in (decision.hint or "")
    if name in PLAIN:
        assert "HttpRequestDenied" in str(caught.value)


@pytest.mark.parametrize("name", GUESTS)
def test_without_a_grant_nothing_is_sent_and_the_hint_is_recorded(world: World, name: str) -> None:
    before = len(world.server.requests)
    with pytest.raises(GuestError) as caught:
        world.tool(name, granted=False)("/x")
    assert [decision.reason for decision in caught.value.decisions] == [Reason.NOT_GRANTED]
    assert HOST in (caught.value.decisions[0].hint or "")
    assert len(world.server.requests) == before


@pytest.mark.parametrize("name", GUESTS)
def test_a_credential_is_injected_and_redacted_for_the_guest(world: World, name: str) -> None:
    mapping = CredentialMapping(secret_name="api_token", location=CredentialLocation.bearer(), host_patterns=(HOST,))
    output = world.tool(name, credentials=(mapping,))("/mirror")
    assert world.server.requests[-1].header("authorization") == f"Bearer {TOKEN}"
    assert "authorization" in output.result["body"].lower()  # the server sent everything back
    assert TOKEN not in str(output)


@pytest.mark.parametrize("name", GUESTS)
def test_a_secret_written_by_the_guest_is_not_sent(world: World, name: str) -> None:
    before = len(world.server.requests)
    shaped = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    with pytest.raises(ToolError) as caught:
        world.tool(name)("/echo", method="POST", body=f"here: {shaped}")
    assert Reason.LEAK in [decision.reason for decision in caught.value.decisions]
    assert len(world.server.requests) == before


@pytest.mark.parametrize("name", GUESTS)
def test_the_guest_follows_redirects_through_the_gateway(world: World, name: str) -> None:
    before = len(world.server.requests)
    assert world.tool(name)("/redirect").result["status"] == 302
    assert len(world.server.requests) == before + 1


@pytest.mark.parametrize("name", GUESTS)
def test_the_deadline_ends_a_call_whose_server_is_silent(world: World, name: str) -> None:
    limits = ResourceLimits(timeout_seconds=2, fuel=LIMITS.fuel, memory_bytes=LIMITS.memory_bytes)
    with pytest.raises(ToolError) as caught:
        world.tool(name, limits=limits)("/silent")
    assert caught.value.kind == "timeout"


def test_the_guests_timeout_is_applied(world: World) -> None:
    with pytest.raises(GuestError, match="HttpResponseTimeout"):
        world.tool("rust-http")("/silent", first_byte_timeout_ms=300)


def test_a_guest_that_waits_before_finishing_its_request_traps(world: World) -> None:
    with pytest.raises(ToolError, match="not finished"):
        world.tool("rust-http")("/echo", method="POST", hang=True)


def test_framing_headers_are_set_by_the_host(world: World) -> None:
    tool = world.tool("rust-http")
    with pytest.raises(GuestError, match=r"host: .*Forbidden"):
        tool("/echo", headers=[["host", "evil.example.com"]])
    with pytest.raises(GuestError, match="InvalidSyntax"):
        tool("/echo", headers=[["x", "a\r\nhost: evil.example.com"]])


def test_concurrent_fetches_are_all_answered(world: World) -> None:
    tool = world.tool("starlingmonkey-fetch")
    base = f"https://{HOST}:{world.server.port}/echo?"
    output = tool("/", all=[{"url": base + str(number)} for number in range(5)])
    assert [answer["body"] for answer in output.result["all"]] == ["GET 0 b''"] * 5
