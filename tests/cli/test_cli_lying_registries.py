"""Lying registries: each lie ends `wasmrt install` with its code, and nothing is installed or sent elsewhere."""

from __future__ import annotations

import gzip
import json
import resource
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import Result
from wasmrt.testing import FakeResolver, ReceivedRequest, ServerConnection, http_response

from tests.cli.registry import (
    BASIC,
    COMPONENT,
    CONFIG_TYPE,
    MANIFEST_TYPE,
    REQUEST,
    TOKEN,
    Answer,
    FakeRegistry,
    config_of,
    descriptor,
    digest_of,
    log_in,
)
from wasmrt.catalog.installer import Installer
from wasmrt.catalog.registry import Registry, parse_reference
from wasmrt.core.errors import SourceError
from wasmrt.egress.gateway import EgressGateway, HttpRequest, NetworkConfig, send_for_user

Run = Callable[..., Result]
Headers = tuple[tuple[str, str], ...]
Lie = Callable[[FakeRegistry], None]
WASM = "application/wasm"
CONFIG = config_of(REQUEST)
LONGER, OTHER = COMPONENT + b"\0", COMPONENT[:-1] + b"\0"
MOVED = (("Location", "https://127.0.0.1:{}/v2/"),)
BEARER = 'Bearer realm="{}",service="a"'


class Answered(NamedTuple):
    status: int
    headers: Headers
    body: bytes


@pytest.fixture
def registry(registry: FakeRegistry, tmp_path: Path) -> FakeRegistry:
    log_in(tmp_path / "docker", registry.host)
    return registry


def blob(answer: Answer) -> Lie:
    return lambda registry: registry.lies.update({digest_of(COMPONENT): answer})


def config(answer: Answer) -> Lie:
    return lambda registry: registry.lies.update({digest_of(CONFIG): answer})


def manifest(answer: Answer) -> Lie:
    return lambda registry: registry.lies.update({"/manifests/1.0.0": answer})


def published(config_blob: bytes = CONFIG, *layers: tuple[bytes, str], **changes: object) -> Lie:
    return lambda registry: (registry.publish(config_blob, *(layers or ((COMPONENT, WASM),)), **changes), None)[1]


def moved(location: str) -> bytes:
    return http_response(b"x" * 500, status=307, headers=(("Location", location),))


def inwards(registry: FakeRegistry, host: str, lie: Callable[[Answer], Lie] = blob) -> None:
    lie(moved(f"https://{host}:{registry.inner.port}/blob"))(registry)


def challenged(registry: FakeRegistry, realm: str) -> None:
    registry.challenge = BEARER.format(realm.format(host=registry.host, inner=registry.inner.port))


def token(registry: FakeRegistry, answer: Answer) -> None:
    challenged(registry, "https://{host}/token")
    registry.lies["/token"] = answer


def changed(**changes: object) -> dict[str, object]:
    return descriptor(COMPONENT, WASM) | changes


def cut(data: bytes) -> Iterator[tuple[int, bytes]]:
    whole = http_response(data)
    return ((at, whole[:at]) for at in (0, 1, 20, 45, len(whole) // 2, len(whole) - 1))


CODED = (("Content-Encoding", "gzip"),)
BOMB = http_response(gzip.compress(bytes(20_000_000)), headers=CODED)
LIES: dict[str, tuple[Lie, str]] = {
    "other component": (blob(http_response(OTHER)), "digest-mismatch"),
    "other config": (config(http_response(CONFIG.replace(b"GET", b"PUT"))), "digest-mismatch"),
    "digest of the other content in a header": (
        blob(http_response(OTHER, headers=(("Docker-Content-Digest", digest_of(COMPONENT)),))), "digest-mismatch",
    ),
    "longer component": (blob(http_response(LONGER)), "response-too-large"),
    "shorter component": (blob(http_response(COMPONENT[:-1])), "size-mismatch"),
    "empty component": (blob(http_response(b"")), "size-mismatch"),
    "length of 10 GB": (blob(http_response(COMPONENT, length=10**10)), "response-too-large"),
    "manifest of 2 MB": (manifest(http_response(b"{" + b" " * 2_000_000)), "response-too-large"),
    "smaller size in the manifest": (published(layers=[changed(size=100)]), "response-too-large"),
    "larger size in the manifest": (published(layers=[changed(size=len(LONGER))]), "size-mismatch"),
    "size of 1 TB in the manifest": (published(layers=[changed(size=10**12)]), "component-too-large"),
    "negative size": (published(layers=[changed(size=-1)]), "artifact"),
    "size as text": (published(layers=[changed(size="7")]), "artifact"),
    "config of 1 GB": (published(config=descriptor(CONFIG, CONFIG_TYPE) | {"size": 10**9}), "artifact"),
    "other digest algorithm": (published(layers=[changed(digest="md5:00")]), "artifact"),
    "path as digest": (published(layers=[changed(digest="sha256:../../../etc/passwd")]), "artifact"),
    "gzip bomb as component": (blob(BOMB), "content-coding"),
    "gzip bomb as manifest": (manifest(BOMB), "content-coding"),
    "correct gzip": (blob(http_response(gzip.compress(COMPONENT), headers=CODED)), "content-coding"),
    "partial content": (blob(http_response(COMPONENT, status=206)), "registry"),
    "missing blob": (blob(http_response(b"{}", status=404)), "not-found"),
    "failing registry": (manifest(http_response(b"{}", status=500)), "registry"),
    "second component": (published(CONFIG, (COMPONENT, WASM), (OTHER, WASM)), "artifact"),
    "unknown layer": (published(CONFIG, (COMPONENT, WASM), (b"x", "text/plain")), "artifact"),
    "no layer": (published(layers=[]), "artifact"),
    "thousands of layers": (published(layers=[changed()] * 2000), "artifact"),
    "index of manifests": (published(mediaType="application/vnd.oci.image.index.v1+json"), "artifact"),
    "duplicate key": (manifest(http_response(b'{"schemaVersion": 2, "schemaVersion": 2}')), "artifact"),
    "nested manifest": (manifest(http_response(b"[" * 100_000)), "artifact"),
    "web page": (manifest(http_response(b"<html>")), "artifact"),
    "changed capability file": (published(CONFIG.replace(b"GET", b"PUT")), "artifact"),
    "unknown form of capability file": (published(config_of(None, wasmrt={"data": "{}"})), "artifact"),
    "capability file and policy": (
        published(CONFIG, (COMPONENT, WASM), (b"permissions: {}", "application/vnd.wasm.policy.v1+yaml")), "artifact",
    ),
    "redirect to another port": (partial(inwards, host="127.0.0.1"), "port-not-allowed"),
    "redirect of the manifest": (partial(inwards, host="127.0.0.1", lie=manifest), "port-not-allowed"),
    "redirect to another name": (partial(inwards, host="localhost"), "port-not-allowed"),
    "redirect to another loopback address": (blob(moved("https://127.0.0.2/")), "address-not-allowed"),
    "redirect to IPv6 loopback": (blob(moved("https://[::1]/")), "address-not-allowed"),
    "redirect to the cloud's metadata": (blob(moved("https://169.254.169.254/")), "address-not-allowed"),
    "redirect to http": (blob(moved("http://127.0.0.1/")), "insecure-scheme"),
    "redirect to a file": (blob(moved("file:///etc/passwd")), "invalid-url"),
    "redirect with a login": (blob(moved("https://a:b@127.0.0.1/")), "invalid-url"),
    "loop of redirects": (blob(moved(f"/v2/acme/parrot/blobs/{digest_of(COMPONENT)}")), "registry"),
    "redirect without an address": (blob(http_response(status=307)), "registry"),
    "realm on another port": (partial(challenged, realm="https://127.0.0.1:{inner}/token"), "registry-realm"),
    "realm on another name": (partial(challenged, realm="https://localhost:{inner}/token"), "registry-realm"),
    "realm over http": (partial(challenged, realm="http://{host}/token"), "insecure-scheme"),
    "realm with a login": (partial(challenged, realm="https://a:b@{host}/token"), "invalid-url"),
    "no realm": (lambda registry: setattr(registry, "challenge", "Bearer"), "invalid-url"),
    "unknown challenge": (lambda registry: setattr(registry, "challenge", "Negotiate"), "registry-login"),
    "token with a line end": (partial(token, answer=http_response(b'{"token": "a\\r\\nX: y"}')), "registry-login"),
    "token of 1 MB": (partial(token, answer=http_response(b'{"token": "%s"}' % (b"a" * 10**6))), "response-too-large"),
    "no token": (partial(token, answer=http_response(b"[]")), "registry-login"),
    "token realm redirects": (partial(token, answer=moved("https://127.0.0.1/")), "registry-login"),
    "refused token": (partial(token, answer=http_response(b'{"token": "other"}')), "registry-login"),
    **{f"manifest cut after {at}": (manifest(data), "connection") for at, data in cut(b"{}" * 100)},
    **{f"config cut after {at}": (config(data), "connection") for at, data in cut(CONFIG)},
    **{f"component cut after {at}": (blob(data), "connection") for at, data in cut(COMPONENT)},
}  # fmt: skip


@pytest.mark.table
@pytest.mark.parametrize("name", LIES)
def test_no_lie_installs_anything_or_reaches_another_server(wasmrt: Run, registry: FakeRegistry, name: str) -> None:
    lie, code = LIES[name]
    registry.publish(CONFIG, (COMPONENT, WASM))
    lie(registry)
    error = json.loads(wasmrt("install", registry.url(), "--yes", "--json", code=2).stderr)
    assert (error["code"], bool(error["message"] and error["hint"])) == (code, True), error
    assert json.loads(wasmrt("list", "--json").stdout) == []
    assert registry.inner.connections == 0


def test_a_pull_without_a_login_asks_no_realm_inside_for_a_token(
    wasmrt: Run, registry: FakeRegistry, tmp_path: Path
) -> None:
    (tmp_path / "docker/config.json").unlink()
    registry.publish(CONFIG, (COMPONENT, WASM))
    realms = {
        "https://127.0.0.1:{inner}/token": "port-not-allowed",
        "https://localhost:{inner}/token": "port-not-allowed",
        "https://127.0.0.2/token": "address-not-allowed",
        "https://169.254.169.254/token": "address-not-allowed",
        "http://{host}/token": "insecure-scheme",
    }
    for realm, code in realms.items():
        challenged(registry, realm)
        error = json.loads(wasmrt("install", registry.url(), "--yes", "--json", code=2).stderr)
        assert error["code"] == code, f"{realm}: {error}"
    assert registry.inner.connections == 0 and {request.target for request in registry.server.requests} == {
        "/v2/acme/parrot/manifests/1.0.0"
    }


def test_a_login_and_its_token_are_sent_only_to_the_registry() -> None:
    manifest, kind = json.dumps({"schemaVersion": 2}).encode(), ("WWW-Authenticate", BEARER)
    sent: list[tuple[str, str | None]] = []

    def send(
        method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes | None, max_bytes: int
    ) -> Answered:
        login = dict(headers).get("Authorization")
        sent.append((url, login))
        if url.startswith("https://storage.example.com/"):
            return Answered(200, (), manifest)
        if "/token" in url:
            return Answered(200, (), json.dumps({"token": TOKEN}).encode())
        if login is None:
            return Answered(401, ((kind[0], kind[1].format(realm)),), b"")
        return Answered(307, (("Location", "https://storage.example.com/a?signature=b"),), b"")

    for realm, login in (("https://example.com/token", BASIC), ("https://auth.example.net/token", None)):
        sent.clear()
        reference = parse_reference("oci://example.com/acme/parrot:1")
        assert Registry(reference, send, lambda _host: login).get_manifest()[0] == manifest  # noqa: B023
        first, realm_, again, storage = sent
        assert (first[1], realm_[1], again[1], storage[1]) == (None, login, f"Bearer {TOKEN}", None)
        assert realm_[0].startswith(realm) and storage[0] == "https://storage.example.com/a?signature=b"


def test_a_name_that_moves_inside_between_two_requests_is_refused(registry: FakeRegistry, home: Path) -> None:
    registry.publish(CONFIG, (COMPONENT, WASM))
    resolver = FakeResolver({"localhost": [["127.0.0.1"], ["127.0.0.2"], ["10.0.0.1"], ["127.0.0.1", "10.0.0.1"]]})
    network = NetworkConfig(
        unsafe_allowed_networks=("127.0.0.1/32",), ca_file=home / "ca.pem", resolver=resolver
    )  # fmt: skip
    origin = f"https://localhost:{registry.server.port}"
    request = HttpRequest("GET", f"{origin}/v2/acme/parrot/manifests/1.0.0", (("Accept", MANIFEST_TYPE),))
    codes = []
    with EgressGateway(network) as gateway:
        for _ in range(4):
            try:
                got = send_for_user(gateway, origin, request, name="install", user="ann", max_bytes=10_000)
                codes.append(str(got.status))
            except SourceError as error:
                codes.append(error.code)
    assert codes == ["200", *["address-not-allowed"] * 3]
    assert registry.server.connections == 1


def test_a_slow_blob_ends_at_the_deadline_of_its_request(registry: FakeRegistry, home: Path) -> None:
    def trickle(_request: ReceivedRequest, connection: ServerConnection) -> None:
        connection.send(http_response(COMPONENT)[:1000])
        while not connection.closing.wait(0.01) and connection.send(b"a"):
            pass

    registry.lies["/slow"] = trickle
    network = NetworkConfig(unsafe_allowed_networks=("127.0.0.1/32",), ca_file=home / "ca.pem")
    origin = f"https://127.0.0.1:{registry.server.port}"
    with EgressGateway(network) as gateway, pytest.raises(SourceError) as caught:
        request = HttpRequest("GET", f"{origin}/slow", timeout_seconds=0.2)
        send_for_user(gateway, origin, request, name="install", user="ann", max_bytes=len(COMPONENT))
    assert caught.value.code == "timeout"


def test_a_full_disk_installs_nothing(wasmrt: Run, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.publish(CONFIG, (COMPONENT, WASM))
    accept, before = Installer.accept, resource.getrlimit(resource.RLIMIT_FSIZE)

    def on_a_full_disk(*arguments: object, **options: object) -> object:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(COMPONENT) // 2, before[1]))
        try:
            return accept(*arguments, **options)  # type: ignore[arg-type]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with monkeypatch.context() as full:
        full.setattr(Installer, "accept", on_a_full_disk)
        error = json.loads(wasmrt("install", registry.url(), "--yes", "--json", code=1).stderr)
    assert error["code"] == "catalog"
    assert json.loads(wasmrt("list", "--json").stdout) == []
    wasmrt("install", registry.url(), "--yes")
