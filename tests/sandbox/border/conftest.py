"""A runtime for one guest, and a server on loopback, for tests of the host-guest boundary."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
from wasmrt.testing import FakeResolver, ReceivedRequest, ScriptedServer, ServerConnection

from wasmrt import (
    Capabilities,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    PreparedTool,
    ResourceLimits,
    WasmRuntimeConfig,
    WasmToolRuntime,
)
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.leaks import LeakDetector
from wasmrt.runtime.call import Backends, Call
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.component import ToolSpec
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.runner import Description

HOST = "api.example.com"

Start = Callable[..., WasmToolRuntime]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Creates runtimes, and closes them after the test."""
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    with ExitStack() as stack:

        def make(**config: Any) -> WasmToolRuntime:
            config.setdefault("isolation", "in-process")  # where a test's replacements of wasmrt functions apply
            return stack.enter_context(WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, **config)))

        yield make


def only_tool(
    runtime: WasmToolRuntime, component: bytes, grant: Capabilities | None = None, **more: Any
) -> PreparedTool:
    """The only tool of a component."""
    prepared = runtime.prepare("tool", component, grant, **more)
    return prepared.tool(prepared.tools[0].name)


def a_call(
    grant: Capabilities | None = None,
    *,
    user: str = "ann",
    parent: Call | None = None,
    backends: Mapping[str, Any] | None = None,
    timeout_seconds: float = 60.0,
) -> Call:
    """The host's side of a call, without a guest."""
    grant = grant or Capabilities.none()
    return Call(
        call_id="1",
        tool="tool",
        context=ToolContext(user=user),
        limits=ResourceLimits(timeout_seconds=timeout_seconds),
        grant=grant,
        full_grant=grant,
        backends=Backends(LeakDetector(), **(backends or {})),
        parent=parent,
    )


class StandIn:
    """A component with the tools `specs`, whose guest calls `act` with call, params and context."""

    checks_params = False

    def __init__(
        self,
        act: Callable[[GuestCall, str, str | None], str] = lambda *_: "{}",
        *,
        specs: Sequence[ToolSpec] = (ToolSpec("tool"),),
        world: str = "wasmrt:tool/provider@0.1.0",
        seconds: float = 60.0,
    ) -> None:
        self.world = world
        self.description = Description({spec.name: spec for spec in specs}, 1, 0)
        self.limits = ResourceLimits(timeout_seconds=seconds)
        self._act = act

    def run(self, call: GuestCall, tool: str, params: str, context: str | None, *, user: str) -> str:
        return self._act(call, params, context)


Script = Callable[[ReceivedRequest, ServerConnection], bytes | None]


@dataclass
class Site:
    """A server that has the name `HOST` for users of `network`."""

    server: ScriptedServer
    network: NetworkConfig

    def url(self, path: str = "/") -> str:
        """The URL of one of its pages."""
        return f"https://{HOST}:{self.server.port}{path}"

    def grant(self, *credentials: CredentialMapping, **http: Any) -> Capabilities:
        """A grant for any request to it."""
        allowed = (EndpointPattern(HOST, ports=(self.server.port,)),)
        return Capabilities.none().with_http(HttpCapability(allowlist=allowed, credentials=credentials, **http))


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def site(authority: trustme.CA, tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Creates a server with scripted responses, which may have more names than `HOST`."""
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    with ExitStack() as stack:

        def make(script: Script, *names: str) -> Site:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert(HOST, *names).configure_cert(tls)
            server = stack.enter_context(ScriptedServer(script, tls=tls))
            resolver = FakeResolver({name: ["127.0.0.1"] for name in (HOST, *names)})
            return Site(
                server, NetworkConfig(unsafe_allowed_networks=("127.0.0.0/8",), resolver=resolver, ca_file=ca_file)
            )

        yield make
