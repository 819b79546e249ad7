"""Lies of registries in HTTP framing, manifests, redirects and challenges."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import Result
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from tests.cli.registry import (
    COMPONENT,
    INDEX_TYPE,
    MANIFEST_TYPE,
    Answer,
    FakeRegistry,
    config_of,
    descriptor,
    digest_of,
    log_in,
)
from tests.cli.test_cli_lying_registries import (
    CONFIG,
    OTHER,
    WASM,
    Lie,
    blob,
    changed,
    manifest,
    moved,
    published,
    token,
)

Run = Callable[..., Result]
SIZE, DIGEST = len(COMPONENT), digest_of(COMPONENT)
ZIPPED = gzip.compress(COMPONENT)


@pytest.fixture
def registry(registry: FakeRegistry, tmp_path: Path) -> FakeRegistry:
    log_in(tmp_path / "docker", registry.host)
    return registry


def raw(head: str, body: bytes = b"") -> bytes:
    return head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body


def chunked(data: bytes, trailers: bytes = b"", extension: bytes = b"") -> bytes:
    body = b"%x%s\r\n%s\r\n0\r\n%s\r\n" % (len(data), extension, data, trailers)
    return raw("HTTP/1.1 200 X\nTransfer-Encoding: chunked", body)


def coded(*codings: str, body: bytes = ZIPPED) -> Lie:
    return blob(http_response(body, headers=tuple(("Content-Encoding", coding) for coding in codings)))


def status(number: int, *headers: tuple[str, str]) -> bytes:
    return http_response(b"{}" if number >= 200 else b"", status=number, headers=headers)


def demanded(*challenges: str) -> Lie:
    return manifest(status(401, *(("WWW-Authenticate", each) for each in challenges)))


def edited(edit: Callable[[bytes], bytes]) -> Lie:
    return lambda registry: registry.manifests.update({"1.0.0": edit(registry.manifests["1.0.0"])})


def configured(config: bytes) -> Lie:
    return published(config, (COMPONENT, WASM))


def elsewhere(**fields: object) -> Lie:
    """The blob of the component is missing, but its descriptor has other fields."""

    def lie(registry: FakeRegistry) -> None:
        text = json.dumps(fields).replace("INNER", f"https://127.0.0.1:{registry.inner.port}")
        published(layers=[changed(**json.loads(text))])(registry)
        del registry.blobs[digest_of(COMPONENT)]

    return lie


def inside(text: str, lie: Callable[[str], Lie]) -> Lie:
    return lambda registry: lie(text.format(host=registry.host, inner=registry.inner.port))(registry)


def flood(piece: bytes) -> Answer:
    def respond(_request: ReceivedRequest, connection: ServerConnection) -> None:
        connection.send(b"HTTP/1.1 200 X\r\n")
        while connection.send(piece):
            pass

    return respond


def entry(kind: str) -> dict[str, object]:
    return {"mediaType": kind, "digest": f"sha256:{'0' * 64}", "size": 5, "platform": {"os": "linux"}}


def index(kind: str) -> Lie:
    tree = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry(kind)]}
    return manifest(http_response(json.dumps(tree).encode()))


def redirected(location: str) -> Lie:
    return blob(moved(location))


def typed(kind: str) -> Lie:
    return published(layers=[changed(mediaType=kind)])


def hashed(digest: str) -> Lie:
    return published(layers=[changed(digest=digest)])


LIES: dict[str, tuple[Lie, str]] = {
    "two different lengths": (
        blob(raw(f"HTTP/1.1 200 X\nContent-Length: {SIZE}\nContent-Length: 1", COMPONENT)), "protocol",
    ),
    "negative length": (blob(raw("HTTP/1.1 200 X\nContent-Length: -1", COMPONENT)), "protocol"),
    "length with a sign": (blob(raw(f"HTTP/1.1 200 X\nContent-Length: +{SIZE}", COMPONENT)), "protocol"),
    "20,000 trailers": (blob(chunked(COMPONENT, b"A: b\r\n" * 20_000)), "protocol"),
    "long chunk extension": (blob(chunked(COMPONENT, extension=b";a" * 100_000)), "protocol"),
    "longer chunks": (blob(chunked(COMPONENT + b"x")), "response-too-large"),
    "negative chunk": (blob(raw("HTTP/1.1 200 X\nTransfer-Encoding: chunked", b"-5\r\nabc\r\n0\r\n\r\n")), "protocol"),
    "coding as transfer coding": (
        blob(chunked(ZIPPED).replace(b"chunked", b"gzip, chunked")), "protocol",
    ),
    "HTTP/1.0 cut": (blob(raw("HTTP/1.0 200 X", COMPONENT[:-1])), "size-mismatch"),
    "HTTP/1.0 longer": (blob(raw("HTTP/1.0 200 X", COMPONENT + b"x")), "response-too-large"),
    "preface of HTTP/2": (blob(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "protocol"),
    "switched protocol": (blob(raw("HTTP/1.1 101 X\nUpgrade: h2c\nConnection: upgrade", COMPONENT)), "protocol"),
    "flood of interim responses": (blob(b"HTTP/1.1 103 X\r\n\r\n" * 100_000), "response-too-large"),
    "endless headers": (blob(flood(b"A: b\r\n" * 1000)), "protocol"),
    "header of 10 MB": (blob(raw("HTTP/1.1 200 X\nA: " + "a" * 10_000_000)), "protocol"),
    **{f"blob with status {each}": (blob(status(each)), "registry") for each in (203, 204, 226, 300, 304)},
    **{f"manifest with status {each}": (manifest(status(each)), "registry") for each in (204, 206, 304, 407, 429, 503)},
    "two codings": (coded("identity, gzip"), "content-coding"),
    "coding in two headers": (coded("identity", "gzip"), "content-coding"),
    "coding in capitals": (coded("GZIP"), "content-coding"),
    "other names of codings": (coded("x-gzip"), "content-coding"),
    "zstd": (coded("zstd"), "content-coding"),
    "index for another platform": (index(MANIFEST_TYPE), "artifact"),
    "index in an index": (index(INDEX_TYPE), "artifact"),
    "foreign layer": (typed("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"), "artifact"),
    "layer with a URL inside": (elsewhere(urls=["INNER/blob"]), "not-found"),
    "layer with its content": (elsewhere(data="AGFzbQ=="), "not-found"),
    "type with a parameter": (typed("application/wasm; a=b"), "artifact"),
    "type in capitals": (typed("Application/Wasm"), "artifact"),
    "type with a control character": (typed("application/wasm\x1b[2J"), "artifact"),
    "component as a package": (typed("application/vnd.wasmrt.package.v1"), "package-broken"),
    "manifest of Docker": (
        published(mediaType="application/vnd.docker.distribution.manifest.v2+json"), "artifact",
    ),
    "version as text": (published(schemaVersion="2"), "artifact"),
    "sha512": (hashed(f"sha512:{'0' * 128}"), "artifact"),
    "digest in capitals": (hashed(f"sha256:{DIGEST[7:].upper()}"), "artifact"),
    "algorithm in capitals": (hashed(f"SHA256:{DIGEST[7:]}"), "artifact"),
    "digest with a line end": (hashed(f"{DIGEST}\n"), "artifact"),
    "size as a truth value": (published(layers=[changed(size=True)]), "artifact"),
    "size as a fraction": (published(layers=[changed(size=float(SIZE))]), "artifact"),
    "annotation of 1.1 MB": (published(annotations={"a": "b" * 1_100_000}), "response-too-large"),
    "duplicate layers": (edited(lambda data: data[:-1] + b', "layers": []}'), "artifact"),
    "duplicate key in the config": (configured(CONFIG[:-1] + b', "wasmrt": null}'), "artifact"),
    "byte order mark": (edited(lambda data: b"\xef\xbb\xbf" + data), "artifact"),
    "UTF-16": (edited(lambda data: data.decode().encode("utf-16")), "artifact"),
    "two manifests": (edited(lambda data: data + data), "artifact"),
    "component as config": (published(config=descriptor(COMPONENT, "application/vnd.wasm.config.v0+json")), "artifact"),
    "integer of 10,000 digits": (configured(CONFIG[:-1] + b', "a": %s}' % (b"9" * 10_000)), "artifact"),
    "nested capability file": (configured(config_of(b"[" * 5000)), "capability-file"),
    "redirect without a scheme": (inside("//127.0.0.1:{inner}/", redirected), "port-not-allowed"),
    "redirect with a backslash": (inside("https://127.0.0.1:{inner}\\@{host}/", redirected), "invalid-url"),
    "redirect to data": (redirected("data:application/wasm,abc"), "invalid-url"),
    "redirect to an IPv4 address in IPv6": (redirected("https://[::ffff:169.254.169.254]/"), "address-not-allowed"),
    "redirect to IPv6 link-local": (redirected("https://[fe80::1]/"), "address-not-allowed"),
    "redirect to a number": (redirected("https://2130706433/"), "invalid-url"),
    "redirect of 100,000 characters": (redirected("/" + "a" * 100_000), "protocol"),
    "redirect to another blob": (
        inside("https://{host}/v2/acme/parrot/blobs/" + digest_of(CONFIG), redirected), "size-mismatch",
    ),
    "3,000 challenges": (demanded(*['Bearer realm="https://a.example.com/"'] * 3000), "protocol"),
    "challenge of 200,000 characters": (demanded(f'Bearer realm="https://{"a" * 200_000}/"'), "protocol"),
    "challenge with 5,000 parameters": (
        demanded("Bearer " + ",".join(f'a{at}="b"' for at in range(5000))), "invalid-url",
    ),
    "challenges for two logins": (
        inside('Bearer realm="https://127.0.0.1:{inner}/"', lambda each: demanded('Basic realm="a"', each)),
        "registry-realm",
    ),
    "no challenge": (manifest(status(401)), "registry-login"),
    "challenge for a blob": (
        blob(status(401, ("WWW-Authenticate", 'Bearer realm="https://127.0.0.1/"'))), "registry-realm",
    ),
    "token as a list": (partial(token, answer=http_response(b'{"token": ["a"]}')), "registry-login"),
    "token with a coding": (
        partial(token, answer=http_response(gzip.compress(b"{}"), headers=(("Content-Encoding", "gzip"),))),
        "content-coding",
    ),
}  # fmt: skip


@pytest.mark.table
@pytest.mark.parametrize("name", LIES)
def test_no_lie_installs_anything_or_reaches_another_server(
    wasmrt: Run,
    registry: FakeRegistry,
    name: str,
) -> None:
    lie, code = LIES[name]
    registry.publish(CONFIG, (COMPONENT, WASM))
    lie(registry)
    error = json.loads(wasmrt("install", registry.url(), "--yes", "--json", code=2).stderr)
    assert (error["code"], bool(error["message"] and error["hint"])) == (code, True), error
    assert json.loads(wasmrt("list", "--json").stdout) == []
    assert registry.inner.connections == 0


def followed_by(extra: bytes) -> Answer:
    def respond(_request: ReceivedRequest, connection: ServerConnection) -> bytes:
        connection.keep_alive = True
        return http_response(CONFIG) + extra

    return respond


def test_unusual_responses_with_the_right_content_have_no_effect(
    wasmrt: Run,
    registry: FakeRegistry,
) -> None:
    inner = f"127.0.0.1:{registry.inner.port}"
    headers = (("Alt-Svc", f'h2="{inner}"'), ("Refresh", f"0;url=https://{inner}/"), ("Set-Cookie", "a=b"))
    registry.publish(CONFIG, (COMPONENT, WASM))
    for answers in (
        {DIGEST: http_response(COMPONENT, headers=headers), digest_of(CONFIG): http_response(CONFIG, headers=headers)},
        {DIGEST: raw("HTTP/1.0 200 X", COMPONENT)},
        {DIGEST: chunked(COMPONENT, b"Content-Encoding: gzip\r\n")},
        {digest_of(CONFIG): followed_by(http_response(OTHER))},
    ):
        registry.lies = dict(answers)
        wasmrt("install", registry.url(), "--yes")
        assert "hi" in wasmrt("run", "parrot", '{"message": "hi"}').stdout
        wasmrt("remove", "parrot", "--yes")
    assert registry.inner.connections == 0
    assert not any(request.header("Cookie") for request in registry.server.requests)
