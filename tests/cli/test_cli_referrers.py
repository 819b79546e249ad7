"""Signatures in registries: attached by `wasmrt push`, found by `wasmrt install`, and lies about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from wasmrt.testing import http_response

from tests.cli.registry import (
    COMPONENT,
    MANIFEST_TYPE,
    REQUEST,
    FakeRegistry,
    config_of,
    descriptor,
    digest_of,
    index_of,
)
from wasmrt.catalog import Catalog
from wasmrt.catalog.signing.keys import read_signer, sign

Run = Callable[..., Result]
WASM = "application/wasm"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PREDICATE = "dev.sigstore.bundle.predicateType"
EMPTY = descriptor(b"{}", "application/vnd.oci.empty.v1+json")


@pytest.fixture
def key(wasmrt: Run, tmp_path: Path) -> Path:
    """The private key of a new pair; the public key is next to it, as `publisher.pub`."""
    wasmrt("sign", "--new-key", tmp_path / "publisher")
    return tmp_path / "publisher.key"


def signature(key: Path, digest: str) -> bytes:
    return sign({"manifest": digest.removeprefix("sha256:")}, key.read_bytes())[0]


def attach(registry: FakeRegistry, digest: str, bundle: bytes, **changes: object) -> str:
    """Store a bundle as a referrer of a manifest, and return the referrer's digest."""
    subject = descriptor(b"", MANIFEST_TYPE) | {"digest": digest}
    tree = {
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "artifactType": BUNDLE, "config": EMPTY,
        "layers": [descriptor(bundle, BUNDLE)], "subject": subject,
    }  # fmt: skip
    data = json.dumps(tree | changes).encode()
    registry.blobs[digest_of(bundle)] = bundle
    registry.manifests[digest_of(data)] = data
    return digest_of(data)


@pytest.mark.parametrize("has_referrers", [True, False])
def test_a_pushed_signature_is_found_and_pinned_and_the_bundle_is_kept(
    wasmrt: Run, registry: FakeRegistry, key: Path, tool_file: Callable[..., Path], home: Path, has_referrers: bool
) -> None:
    registry.has_referrers = has_referrers
    file, public = tool_file(sidecar=REQUEST.decode()), key.with_suffix(".pub")
    pushed = json.loads(wasmrt("push", registry.url(), file, "--sign", key, "--json").stdout)["resolved"]
    tag = pushed.partition("@")[2].replace(":", "-")
    assert (tag in registry.manifests) is not has_referrers
    assert "signed by key sha256:" in wasmrt("install", pushed, "--key", public, "--yes").stderr
    stored = Catalog(home / "data").get("parrot").provenance
    assert stored.signer == read_signer(public)
    assert stored.bundle is not None and digest_of(stored.bundle.encode()) in registry.blobs
    registry.manifests = {each: data for each, data in registry.manifests.items() if b"subject" not in data}
    registry.manifests.pop(tag, None)
    assert "not signed; version 1 is signed by" in wasmrt("install", pushed, code=3).stderr
    wasmrt("push", registry.url(), file, "--sign", key)
    assert json.loads(wasmrt("install", pushed, "--json").stdout)["unchanged"]


def test_a_prepared_signature_must_name_the_published_digest(
    wasmrt: Run, registry: FakeRegistry, key: Path, tool_file: Callable[..., Path], tmp_path: Path
) -> None:
    file, bundle = tool_file(), tmp_path / "bundle.json"
    digest = json.loads(wasmrt("push", registry.url(), file, "--json").stdout)["resolved"].partition("@")[2]
    registry.manifests.clear()
    for wrong in (signature(key, digest_of(b"")), b"{}"):
        bundle.write_bytes(wrong)
        error = json.loads(wasmrt("push", registry.url(), file, "--signature", bundle, "--json", code=2).stderr)
        assert error["code"] == "signature" and registry.manifests == {}
    bundle.write_bytes(signature(key, digest))
    wasmrt("push", registry.url(), file, "--signature", bundle)
    assert "signed by" in wasmrt("install", registry.url(), "--key", key.with_suffix(".pub")).stderr
    assert "either --sign" in wasmrt("push", registry.url(), file, "--signature", bundle, "--sign", key, code=2).stderr


def test_a_signature_is_added_to_existing_ones_up_to_a_bound(
    wasmrt: Run, registry: FakeRegistry, key: Path, tool_file: Callable[..., Path]
) -> None:
    file = tool_file()
    for _ in range(2):
        digest = json.loads(wasmrt("push", registry.url(), file, "--sign", key, "--json").stdout)["resolved"]
    tag = digest.partition("@")[2].replace(":", "-")
    assert len(json.loads(registry.manifests[tag])["manifests"]) == 2
    many = [attach(registry, digest.partition("@")[2], str(at).encode()) for at in range(32)]
    registry.manifests[tag] = index_of(*map(registry.manifests.__getitem__, many))
    before = {*registry.manifests}
    error = json.loads(wasmrt("push", registry.url(), file, "--sign", key, "--json", code=2).stderr)
    assert error["code"] == "referrers" and {*registry.manifests} == before


def test_other_referrers_are_no_signatures(wasmrt: Run, registry: FakeRegistry, key: Path, home: Path) -> None:
    registry.has_referrers = True
    digest = registry.publish(config_of(None), (COMPONENT, WASM))
    good = signature(key, digest)
    sbom = {"artifactType": "application/vnd.cyclonedx+json"}
    for at in range(40):
        attach(registry, digest, str(at).encode(), **sbom)
    attach(registry, digest, b"provenance", annotations={PREDICATE: "https://slsa.dev/provenance/v1"})
    attach(registry, digest, b"two", layers=[descriptor(b"two", BUNDLE)] * 2)
    attach(registry, digest, b"text", layers=[descriptor(b"text", "text/plain")])
    untyped = attach(registry, digest, good, artifactType=EMPTY["mediaType"])
    wasmrt("install", registry.url(), "--key", key.with_suffix(".pub"))
    assert Catalog(home / "data").get("parrot").provenance.bundle == good.decode()
    fetched = [each.target for each in registry.server.requests if "manifests/sha256:" in each.target]
    assert len(fetched) == 4 and any(untyped in target for target in fetched)
    assert not any(digest_of(b"provenance") in request.target for request in registry.server.requests)


def listed(
    registry: FakeRegistry, *entries: object, headers: tuple[tuple[str, str], ...] = (), **changes: object
) -> None:
    tree = {"schemaVersion": 2, "manifests": [*entries]} | changes
    registry.lies["referrers/" + digest_of(registry.manifests["1.0.0"])] = http_response(
        json.dumps(tree).encode(), headers=headers
    )


def entry(**changes: object) -> dict[str, object]:
    return descriptor(b"{}", MANIFEST_TYPE) | {"artifactType": BUNDLE} | changes


def other_referrer(registry: FakeRegistry, digest: str, good: bytes) -> None:
    at = attach(registry, digest, good)
    registry.lies[f"manifests/{at}"] = http_response(registry.manifests[at].replace(b"sha256:", b"sha255:"))


def referrer_of_another(registry: FakeRegistry, _: str, good: bytes) -> None:
    at = attach(registry, OTHER, good)
    listed(registry, entry(digest=at, size=len(registry.manifests[at])))


Lie = Callable[[FakeRegistry, str, bytes], object]
OTHER = digest_of(b"other")
LIES: dict[str, tuple[Lie, str]] = {
    "33 signatures": (
        lambda registry, digest, good: [attach(registry, digest, good, n=n) for n in range(33)], "referrers",
    ),
    "33 entries of unknown type": (
        lambda registry, *_: listed(registry, *[descriptor(b"%d" % n, MANIFEST_TYPE) for n in range(33)]), "referrers",
    ),
    "a second page": (
        lambda registry, *_: listed(registry, headers=(("Link", '</v2/next>; rel="next"'),)), "referrers",
    ),
    "list of 2 MB": (lambda registry, *_: listed(registry, note="x" * 2_000_000), "response-too-large"),
    "list of 20,000 entries": (lambda registry, *_: listed(registry, *[{}] * 20_000), "artifact"),
    "no list": (lambda registry, *_: listed(registry, manifests={}), "artifact"),
    "entries as text": (lambda registry, *_: listed(registry, "a"), "artifact"),
    "entry without a digest": (lambda registry, *_: listed(registry, {"artifactType": BUNDLE}), "artifact"),
    "entry with a path": (lambda registry, *_: listed(registry, entry(digest="sha256:../../x")), "artifact"),
    "referrer of 1 GB": (lambda registry, *_: listed(registry, entry(size=10**9)), "artifact"),
    "referrer of another size": (lambda registry, *_: listed(registry, entry(size=3)), "not-found"),
    "missing referrer": (lambda registry, *_: listed(registry, entry(digest=OTHER)), "not-found"),
    "failing list": (
        lambda registry, digest, _: registry.lies.update({f"/{digest}": http_response(status=500)}), "registry",
    ),
    "bundle of 1 MB": (lambda registry, digest, _: attach(registry, digest, b" " * 2**20), "artifact"),
    "other bundle": (
        lambda registry, digest, good: (
            attach(registry, digest, good), registry.blobs.update({digest_of(good): good[:-1] + b" "}),
        ), "digest-mismatch",
    ),
    "other referrer": (other_referrer, "digest-mismatch"),
    "signature of another manifest": (
        lambda registry, digest, good: attach(registry, digest, good.replace(b'"payload": "', b'"payload": "A')),
        "signature",
    ),
    "bundle that is none": (lambda registry, digest, _: attach(registry, digest, b"{}"), "signature"),
    "referrer of another manifest": (referrer_of_another, "signature"),
}  # fmt: skip


@pytest.mark.table
@pytest.mark.parametrize("name", LIES)
def test_no_lie_about_signatures_installs_anything(wasmrt: Run, registry: FakeRegistry, key: Path, name: str) -> None:
    registry.has_referrers = True
    digest = registry.publish(config_of(REQUEST), (COMPONENT, WASM))
    lie, code = LIES[name]
    lie(registry, digest, signature(key, digest))
    public = key.with_suffix(".pub")
    error = json.loads(wasmrt("install", registry.url(), "--key", public, "--yes", "--json", code=2).stderr)
    assert (error["code"], bool(error["message"] and error["hint"])) == (code, True), error
    assert json.loads(wasmrt("list", "--json").stdout) == [] and registry.inner.connections == 0


def test_a_given_signature_replaces_a_flood(wasmrt: Run, registry: FakeRegistry, key: Path, tmp_path: Path) -> None:
    registry.has_referrers = True
    digest = registry.publish(config_of(None), (COMPONENT, WASM))
    for n in range(40):
        attach(registry, digest, b"%d" % n)
    assert "--signature FILE" in wasmrt("install", registry.url(), code=2).stderr
    (tmp_path / "own.json").write_bytes(signature(key, digest))
    given = ("--signature", tmp_path / "own.json", "--key", key.with_suffix(".pub"))
    assert "signed by key" in wasmrt("install", registry.url(), *given).stderr
