"""A certificate authority, servers with its certificates, and a gateway that may reach loopback."""

from __future__ import annotations

import os
import select
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme
from wasmrt.testing import FakeCall, FakeResolver, MemorySecrets, ScriptedServer, ServerConnection
from wasmrt.testing._server import Script

from tests.core.in_task import run_in_task
from wasmrt.capabilities import Capabilities, CredentialMapping, EndpointPattern, HttpCapability
from wasmrt.egress.gateway import EgressGateway, HttpRequest, HttpResponse, NetworkConfig
from wasmrt.egress.rates import RateLimiter
from wasmrt.egress.secrets import Secret, UserSecrets

HOST = "api.example.com"


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA) -> Callable[..., ssl.SSLContext]:
    def make(*names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*(names or (HOST, "other.example.com", "127.0.0.1"))).configure_cert(context)
        return context

    return make


@dataclass
class World:
    """A server, a gateway to it, and calls through the gateway."""

    server: ScriptedServer
    gateway: EgressGateway
    resolver: FakeResolver
    store: MemorySecrets = field(default_factory=MemorySecrets)
    scheme: str = "https"
    in_task: bool = False
    """Whether `get` runs as a task of an event loop."""

    def url(self, path: str = "/", host: str = HOST) -> str:
        return f"{self.scheme}://{host}:{self.server.port}{path}"

    def call(
        self,
        *credentials: CredentialMapping,
        hosts: Sequence[str] = (HOST, "other.example.com", "*.wild.example.com", "127.0.0.1"),
        secrets: Mapping[str, str] | None = None,
        path_prefix: str | None = None,
        methods: tuple[str, ...] = (),
        timeout_seconds: float = 30.0,
        **http: object,
    ) -> FakeCall:
        patterns = tuple(
            EndpointPattern(host, path_prefix, methods, ports=(self.server.port,), schemes=("https", "http"))
            for host in hosts
        )
        for name, value in (secrets or {}).items():
            self.store.set("ann", name, Secret(value))
        grant = Capabilities.none().with_http(
            HttpCapability(allowlist=patterns, credentials=credentials, **http)  # type: ignore[arg-type]
        )
        view = UserSecrets(self.store, "ann")
        return FakeCall(grant, user="ann", secrets=view, timeout_seconds=timeout_seconds)

    def get(self, path: str = "/", call: FakeCall | None = None, **request: object) -> HttpResponse:
        asked = HttpRequest("GET", self.url(path), **request)  # type: ignore[arg-type]
        if self.in_task:
            return run_in_task(lambda: self.gateway.fetch(call or self.call(), asked))
        return self.gateway.fetch(call or self.call(), asked)


MakeWorld = Callable[..., World]


@pytest.fixture
def in_task() -> bool:
    """Whether requests run as tasks of an event loop; modules override it to test both."""
    return False


@pytest.fixture
def world(ca_file: Path, server_tls: Callable[..., ssl.SSLContext], in_task: bool) -> Iterator[MakeWorld]:
    with ExitStack() as stack:

        def make(
            script: Script,
            *,
            tls: bool = True,
            names: tuple[str, ...] = (),
            answers: Mapping[str, Sequence[str] | Sequence[Sequence[str]]] | None = None,
            networks: tuple[str, ...] = ("127.0.0.0/8",),
            rates: RateLimiter | None = None,
            **config: object,
        ) -> World:
            server = ScriptedServer(script, tls=server_tls(*names) if tls else None)
            stack.enter_context(server)
            local = {HOST: ["127.0.0.1"], "other.example.com": ["127.0.0.1"]}
            resolver = FakeResolver(local if answers is None else answers)
            gateway = EgressGateway(
                NetworkConfig(
                    unsafe_allowed_networks=networks,
                    resolver=resolver,
                    ca_file=ca_file,
                    **config,  # type: ignore[arg-type]
                ),
                rates=rates,
            )
            stack.enter_context(gateway)
            return World(server, gateway, resolver, scheme="https" if tls else "http", in_task=in_task)

        yield make


def watch_end(connection: ServerConnection, gone: threading.Event) -> None:
    """Set `gone` when a client has closed its connection. The server itself reads, since TLS allows one reader only."""
    own = os.dup(connection.sock.fileno())

    def wait() -> None:
        watch = select.poll()
        watch.register(own, select.POLLRDHUP)
        watch.poll()
        os.close(own)
        gone.set()

    threading.Thread(target=wait, daemon=True).start()
