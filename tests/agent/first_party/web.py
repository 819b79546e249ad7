"""The test web on loopback: all requests that the gateway allows go to one TLS server."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import trustme
from wasmrt.testing import FakeResolver, ScriptedServer
from wasmrt.testing._server import ReceivedRequest, Script, ServerConnection, http_response

from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.gateway._client import Client
from wasmrt.egress.gateway._exchange import ExchangeBudget, WireRequest, WireResponse

PUBLIC = "93.184.216.34"
HOSTS = (
    "example.com",
    "www.example.com",
    "other.example",
    "search.example.com",
    "api.search.brave.com",
    "api.tavily.com",
    "proxy.golang.org",
)
ADDRESSES: Mapping[str, Sequence[str] | Sequence[Sequence[str]]] = {
    **{host: [PUBLIC] for host in HOSTS},
    "inside.example": ["10.0.0.5"],
    "both.example": [PUBLIC, "127.0.0.1"],
    "metadata.example": ["169.254.169.254"],
}


class ToLoopback:
    """The real client, but all connections go to one server, which has certificates for the requested names."""

    def __init__(self, client: Client, port: int) -> None:
        self._client, self._port = client, port

    def send(self, request: WireRequest, addresses: Sequence[str], budget: ExchangeBudget) -> WireResponse:
        return self._client.send(replace(request, port=self._port), ["127.0.0.1"], budget)

    def close(self) -> None:
        self._client.close()


@dataclass
class Web:
    """Pages by URL. Other URLs return status 404."""

    pages: dict[str, bytes | Script] = field(default_factory=dict)
    server: ScriptedServer = field(init=False)
    transport: ToLoopback = field(init=False)

    def _answer(self, request: ReceivedRequest, connection: ServerConnection) -> bytes | None:
        page = self.pages.get(f"https://{request.header('Host')}{request.target.partition('?')[0]}")
        if page is None:
            return http_response(b"not here", status=404)
        return page if isinstance(page, bytes) else page(request, connection)

    @property
    def asked(self) -> list[ReceivedRequest]:
        return self.server.requests

    def network(self, answers: Mapping[str, Sequence[str] | Sequence[Sequence[str]]] = ADDRESSES) -> NetworkConfig:
        return NetworkConfig(transport=self.transport, resolver=FakeResolver(answers))

    def clear(self) -> None:
        self.pages.clear()
        self.server.requests.clear()


@contextmanager
def serve_web(folder: Path) -> Iterator[Web]:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert(*HOSTS).configure_cert(tls)
    web = Web()
    with ScriptedServer(web._answer, tls=tls) as web.server:
        web.transport = ToLoopback(Client(NetworkConfig(ca_file=folder / "ca.pem")), web.server.port)
        try:
            yield web
        finally:
            web.transport.close()


def page(html: str, *, kind: str = "text/html; charset=utf-8", status: int = 200, **headers: str) -> bytes:
    """Return a response with a body of a media type; pass `Set_Cookie` for `Set-Cookie`."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return http_response(html.encode(), status=status, headers=(("Content-Type", kind), *named))
