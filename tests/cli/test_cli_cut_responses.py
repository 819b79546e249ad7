"""Connections of a registry, a token server or a list of tools that end at any byte of a response."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path

import pytest
from wasmrt.testing import http_response

from tests.cli.registry import COMPONENT, REQUEST, FakeRegistry, config_of, digest_of, serve_registry
from wasmrt.catalog.registry import Access, Listed, OciSource, Reference, Send, list_tools, with_tag
from wasmrt.core.errors import SourceError
from wasmrt.egress.gateway import (
    EgressGateway,
    HttpRequest,
    HttpResponse,
    NetworkConfig,
    download_for_user,
    send_for_user,
)

pytestmark = pytest.mark.ci("slow")
CONFIG = config_of(REQUEST)
SIZE, DIGEST = len(COMPONENT), digest_of(COMPONENT)


def raw(*headers: str, body: bytes) -> bytes:
    return "\r\n".join(("HTTP/1.1 200 X", *headers, "", "")).encode() + body


FRAMINGS: dict[str, Callable[[bytes], bytes]] = {
    "length": http_response,
    "chunks": lambda data: raw("Transfer-Encoding: chunked", body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)),
    "end of the connection": lambda data: raw(body=data),
}
CODES = {"connection", "protocol", "artifact", "index", "registry", "registry-login", "size-mismatch", "source"}


def positions(whole: bytes) -> Iterator[int]:
    """Yield every position at the beginning and the end of a response, and about a hundred between."""
    step = max(16, len(whole) // 100)
    return (at for at in range(len(whole)) if at < 100 or at >= len(whole) - 30 or at % step == 0)


class Reader:
    """Reads a tool and lists of tools from a registry, through the gateway."""

    def __init__(self, gateway: EgressGateway, registry: FakeRegistry) -> None:
        self.registry = registry
        self._gateway = gateway
        self._reads = count()
        self._access = Access(self._connect, lambda _host: None)

    def _connect(self, reference: Reference) -> nullcontext[Send]:
        def send(
            method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes | None, max_bytes: int
        ) -> HttpResponse:
            request = HttpRequest(method, url, headers, body)
            return send_for_user(
                self._gateway, reference.origin, request, name=self._name(), user="ann", max_bytes=max_bytes
            )

        return nullcontext(send)

    def _name(self) -> str:
        return f"install{next(self._reads)}"  # each name has its own rate limit

    def read_tool(self) -> object:
        return OciSource(self.registry.url(), self._access, finds_signatures=False).fetch(max_bytes=SIZE)

    def read_index(self) -> object:
        return list_tools(f"https://{self.registry.host}/tools.json", self._access, self._download).tools

    def read_well_known(self) -> object:
        return list_tools(f"https://{self.registry.host}", self._access, self._download).tools

    def read_tags(self) -> object:
        return with_tag(Listed("parrot", "", f"oci://{self.registry.host}/acme/parrot", ""), self._access)

    def _download(self, url: str, max_bytes: int) -> bytes:
        return download_for_user(self._gateway, url, name=self._name(), user="ann", max_bytes=max_bytes)


@pytest.fixture
def reader(home: Path) -> Iterator[Reader]:
    with serve_registry(home) as registry:
        network = NetworkConfig(unsafe_allowed_networks=("127.0.0.1/32",), ca_file=home / "ca.pem")
        registry.publish(CONFIG, (COMPONENT, "application/wasm"))
        with EgressGateway(network) as gateway:
            yield Reader(gateway, registry)


INDEX = json.dumps({"tools": [{"name": "parrot", "reference": "https://example.com/parrot.wasm"}]}).encode()
LISTS: dict[str, tuple[str, Callable[[FakeRegistry], bytes], Callable[[Reader], object]]] = {
    "index file": ("/tools.json", lambda _: INDEX, Reader.read_index),
    "well-known file": (
        "/registry.json", lambda each: b'{"oci": {"registry": "%s"}}' % each.host.encode(), Reader.read_well_known,
    ),
    "list of repositories": ("/_catalog", lambda _: b'{"repositories": ["acme/parrot"]}', Reader.read_well_known),
    "list of tags": ("/tags/list", lambda _: b'{"tags": ["1.0.0"]}', Reader.read_tags),
}  # fmt: skip
RESPONSES = LISTS | {
    "manifest": ("/manifests/1.0.0", lambda registry: registry.manifests["1.0.0"], Reader.read_tool),
    "config": (digest_of(CONFIG), lambda _: CONFIG, Reader.read_tool),
    "component": (DIGEST, lambda _: COMPONENT, Reader.read_tool),
    "token": ("/token", lambda _: b'{"token": "token.of.the.realm"}', Reader.read_tool),
}  # fmt: skip


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("name", RESPONSES)
def test_a_response_that_is_cut_at_any_byte_is_an_error(reader: Reader, name: str, framing: str) -> None:
    registry, (path, content, read) = reader.registry, RESPONSES[name]
    registry.lies = {end: http_response(body(registry)) for end, body, _ in LISTS.values()}
    if name == "token":
        registry.challenge = f'Bearer realm="https://{registry.host}/token",service="a"'
    whole = FRAMINGS[framing](content(registry))
    registry.lies[path] = whole
    assert read(reader)
    codes: Counter[str] = Counter()
    for at in positions(whole):
        registry.lies[path] = whole[:at]
        with pytest.raises(SourceError) as caught:
            read(reader)
        codes[caught.value.code] += 1
    print(f"{name}, {framing}: {dict(codes)}, {codes.total()} positions")
    assert codes.keys() <= CODES
    assert registry.inner.connections == 0
