"""Signatures with pairs of keys: the right key, another key, and bundles that were changed, moved or removed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP384R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from made_components import HTTP, component

from tests.sigstore_instance import changed
from wasmrt.catalog import Catalog
from wasmrt.catalog.installer import Installer
from wasmrt.catalog.package import FolderFiles, PackageSource, pack
from wasmrt.catalog.signing.keys import make_key_pair, read_signer, sign
from wasmrt.catalog.sources import Fetched, FileSource, WithSignature, digests_to_sign
from wasmrt.core.errors import SourceError
from wasmrt.core.limits import MAX_BUNDLE_BYTES

Write = Callable[..., Path]


class Publisher:
    """The owner of a pair of keys, who signs files."""

    def __init__(self, folder: Path) -> None:
        self.private, public = make_key_pair()
        (folder / "key.pub").write_bytes(public)
        self.signer = read_signer(folder / "key.pub")

    def sign(self, file: Path) -> bytes:
        """Sign a component and the capability file next to it, or an archive, and return the bundle."""
        source = PackageSource(file) if file.suffix == ".zip" else FileSource(file)
        signed = source.fetch(max_bytes=1_000_000).signed
        bundle, signer = sign(dict(zip(("component", "capabilities"), signed, strict=False)), self.private)
        assert signer == self.signer
        Path(f"{file}.sigstore.json").write_bytes(bundle)
        return bundle


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


@pytest.fixture
def other(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


def test_a_signed_tool_pins_its_signer_and_keeps_the_bundle(
    installer: Installer, catalog: Catalog, tool_file: Write, publisher: Publisher
) -> None:
    path = tool_file(sidecar=HTTP | {"version": "1.2.0"})
    bundle = publisher.sign(path)
    plan = installer.plan(FileSource(path), key=publisher.signer)
    digest = digests_to_sign(component())[0]
    words = f"answer 1.2.0, sha256:{digest[:12]}, from file answer.wasm, signed by key sha256:"
    assert plan.summary.startswith(words) and plan.summary.endswith("(first use: the signer will be pinned)")
    installer.accept(plan)
    stored = Catalog(catalog._index._path.parent).get("answer").provenance
    assert stored.signer == publisher.signer
    assert stored.bundle == bundle.decode()
    assert stored.digest == f"sha256:{digest}"
    assert stored.resolved == str(path)
    again = installer.plan(FileSource(path))  # the pinned key verifies it
    assert again.is_installed and "first use" not in again.summary and not again.problem


def test_a_tool_that_the_given_key_did_not_sign_is_refused(
    installer: Installer, tool_file: Write, publisher: Publisher, other: Publisher
) -> None:
    path = tool_file()
    for prepare in (lambda: None, lambda: other.sign(path)):
        prepare()
        with pytest.raises(SourceError, match="must be signed by key") as caught:
            installer.plan(FileSource(path), key=publisher.signer)
        assert caught.value.code == "signature"
    assert installer.plan(FileSource(path)).problem == f"signed with an unknown {other.signer}"


def test_another_signer_none_and_a_lower_version_wait_for_a_decision(
    installer: Installer, catalog: Catalog, tool_file: Write, publisher: Publisher, other: Publisher
) -> None:
    path = tool_file(sidecar={"version": "1.10.0"})
    publisher.sign(path)
    installer.accept(installer.plan(FileSource(path), key=publisher.signer))

    other.sign(path)
    plan = installer.plan(FileSource(path), key=other.signer)
    assert plan.needs_decision and plan.changes[: plan.more] == (
        f"signed by another signer, {other.signer}; version 1 is signed by {publisher.signer}",
    )
    assert installer.plan(FileSource(path)).changes[0].startswith("not signed; version 1")
    Path(f"{path}.sigstore.json").unlink()
    plan = installer.plan(FileSource(path))
    assert plan.needs_decision and plan.changes[: plan.more] == (
        f"not signed; version 1 is signed by {publisher.signer}",
    )
    pending = installer.store_pending(plan)
    assert pending.provenance.signer is None and catalog.get("answer").provenance.signer == publisher.signer

    for version, words in {
        "1.9.2": "lower version: 1.10.0 became 1.9.2",
        "1.10.0-rc.1": "lower version: 1.10.0 became 1.10.0-rc.1",
        "newest": "the versions cannot be compared: 1.10.0 became newest",
        None: "the versions cannot be compared: 1.10.0 became none",
    }.items():
        path = tool_file(sidecar={} if version is None else {"version": version})
        publisher.sign(path)
        plan = installer.plan(FileSource(path))
        assert plan.needs_decision and plan.changes[: plan.more] == (words,)
    path = tool_file(sidecar={"version": "1.11"})
    publisher.sign(path)
    assert not installer.plan(FileSource(path)).wider


def test_a_signature_of_an_installed_unsigned_tool_pins_its_signer(
    installer: Installer, catalog: Catalog, tool_file: Write, publisher: Publisher
) -> None:
    path = tool_file(sidecar=HTTP)
    installer.accept(installer.plan(FileSource(path)))
    publisher.sign(path)
    plan = installer.plan(FileSource(path), key=publisher.signer)
    assert plan.changes == (f"now signed by {publisher.signer}; later versions must be, too",)
    assert not plan.needs_decision and not plan.is_installed
    installer.accept(plan)
    assert catalog.get("answer").provenance.signer == publisher.signer


def test_an_update_by_another_signer_is_a_new_version_with_the_same_bytes(
    installer: Installer, catalog: Catalog, tool_file: Write, publisher: Publisher, other: Publisher
) -> None:
    path = tool_file()
    for each in (publisher, other):
        each.sign(path)
        installer.accept(installer.plan(FileSource(path), key=each.signer))
    assert [v.provenance.signer for v in catalog.versions("answer")] == [publisher.signer, other.signer]


def test_a_signature_of_other_content_is_refused(installer: Installer, tool_file: Write, publisher: Publisher) -> None:
    first = publisher.sign(tool_file(sidecar=HTTP))
    for data, sidecar in ((component(answer=2), HTTP), (None, {}), (None, None)):
        path = tool_file(data, sidecar=sidecar)
        with pytest.raises(SourceError, match="signature is for different content"):
            installer.plan(WithSignature(FileSource(path), first), key=publisher.signer)
        if data is not None:
            assert installer.plan(WithSignature(FileSource(path), first)).problem.startswith("signed with an unknown")


def test_a_moved_bundle_is_refused_without_a_key_as_well(
    installer: Installer, tool_file: Write, publisher: Publisher
) -> None:
    path = tool_file()
    first = publisher.sign(path)
    installer.accept(installer.plan(FileSource(path), key=publisher.signer))
    path = tool_file(component(answer=2))
    with pytest.raises(SourceError, match="signature is for different content"):
        installer.plan(WithSignature(FileSource(path), first))


def test_a_capability_file_that_the_signature_does_not_cover_counts_as_unsigned(
    installer: Installer, tool_file: Write, publisher: Publisher
) -> None:
    bundle = publisher.sign(tool_file())
    path = tool_file()
    installer.accept(installer.plan(FileSource(path), key=publisher.signer))
    source = WithSignature(FileSource(tool_file(sidecar=HTTP)), bundle)
    plan = installer.plan(source)
    assert plan.new.provenance.signer is None and plan.changes[0].startswith("not signed; version 1")
    assert plan.problem == f"the signature by {publisher.signer} does not cover the capability file"
    with pytest.raises(SourceError, match="does not cover the capability file; it must be signed by"):
        installer.plan(source, key=publisher.signer)


def test_an_archive_is_signed_as_a_whole_and_a_folder_cannot_be(
    installer: Installer, tmp_path: Path, publisher: Publisher
) -> None:
    folder = tmp_path / "kit"
    folder.mkdir()
    (folder / "kit.wasm").write_bytes(component())
    (folder / "wasmrt.toml").write_text('name = "kit"\nversion = "1.0.0"\n')
    name, data = pack(FolderFiles(folder))
    (tmp_path / name).write_bytes(data)
    publisher.sign(tmp_path / name)
    plan = installer.plan(PackageSource(tmp_path / name), key=publisher.signer)
    assert plan.summary.startswith(f"kit 1.0.0, sha256:{digests_to_sign(data)[0][:12]}, from package {name}, signed by")
    assert "not signed" in installer.plan(PackageSource(folder)).summary
    with pytest.raises(SourceError, match="not signed"):
        installer.plan(PackageSource(folder), key=publisher.signer)


class Signed:
    """A source of a component with prepared bundles."""

    def __init__(self, *bundles: bytes) -> None:
        self.bundles = bundles

    def fetch(self, *, max_bytes: int) -> Fetched:
        data = component()
        return Fetched(data=data, name="answer", origin="here", bundles=self.bundles, signed=digests_to_sign(data))


def test_one_valid_signature_among_many_suffices_up_to_a_bound(
    installer: Installer, tool_file: Write, publisher: Publisher, other: Publisher
) -> None:
    path = tool_file()
    mine, its = publisher.sign(path), other.sign(path)
    plan = installer.plan(Signed(b"{}", its, mine), key=publisher.signer)
    assert plan.new.provenance.bundle == mine.decode()
    with pytest.raises(SourceError, match="must be signed by"):
        installer.plan(Signed(*[its] * 32, mine), key=publisher.signer)


def resigned(publisher: Publisher, bundle: bytes, **fields: object) -> bytes:
    """Return the bundle with other fields in its statement, and a valid signature."""
    statement = json.dumps(
        json.loads(base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"])) | fields
    ).encode()
    kind = b"application/vnd.in-toto+json"
    key: Any = load_pem_private_key(publisher.private, None)
    signature = key.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(statement), statement), ECDSA(SHA256()))
    bundle = changed(bundle, "dsseEnvelope", "payload", value=base64.b64encode(statement).decode())
    return changed(bundle, "dsseEnvelope", "signatures", 0, "sig", value=base64.b64encode(signature).decode())


def test_malformed_bundles_are_refused(installer: Installer, tool_file: Write, publisher: Publisher) -> None:
    path = tool_file()
    good, digest = publisher.sign(path), digests_to_sign(component())[0]
    envelope, one = "dsseEnvelope", json.loads(good)["dsseEnvelope"]["signatures"][0]
    subject = {"name": "a", "digest": {"sha256": digest}}
    cases = {
        "text": b"no",
        "a list": b"[]",
        "duplicate names": b'{"mediaType": 1, "mediaType": 2}',
        "too large": b" " * MAX_BUNDLE_BYTES + good,
        "too deep": b"[" * 40,
        "another type": changed(good, "mediaType", value="application/json"),
        "no material": changed(good, "verificationMaterial", value=None),
        "a hint that is not text": changed(good, "verificationMaterial", "publicKey", "hint", value=1),
        "no envelope": changed(good, envelope, value=None),
        "another payload type": changed(good, envelope, "payloadType", value="text/plain"),
        "two signatures": changed(good, envelope, "signatures", value=[one, one]),
        "no signature": changed(good, envelope, "signatures", value=[]),
        "not base64": changed(good, envelope, "payload", value="\u00e9"),
        "an empty signature": changed(good, envelope, "signatures", 0, "sig", value=""),
        "another payload": changed(good, envelope, "payload", value=base64.b64encode(b"{}").decode()),
        "another statement": resigned(publisher, good, _type="https://in-toto.io/Statement/v9"),
        "another predicate": resigned(publisher, good, predicateType="https://example.com/tested"),
        "no subject": resigned(publisher, good, subject=[]),
        "too many subjects": resigned(publisher, good, subject=[subject] * 33),
        "a second subject": resigned(publisher, good, subject=[subject, {"digest": {"sha256": "0" * 64}}]),
        "another algorithm": resigned(publisher, good, subject=[{"digest": {"sha512": digest}}]),
        "an upper-case digest": resigned(publisher, good, subject=[{"digest": {"sha256": digest.upper()}}]),
    }  # fmt: skip
    assert installer.plan(Signed(resigned(publisher, good)), key=publisher.signer).summary
    for name, bundle in cases.items():
        with pytest.raises(SourceError, match="the signature is not valid") as caught:
            installer.plan(Signed(bundle), key=publisher.signer)
        assert caught.value.code == "signature", name


def test_a_signature_of_the_bytes_alone_is_verified_as_well(
    installer: Installer, tool_file: Write, publisher: Publisher
) -> None:
    bundle, digest = publisher.sign(tool_file()), digests_to_sign(component())[0]
    key: Any = load_pem_private_key(publisher.private, None)
    message = {
        "messageDigest": {"algorithm": "SHA2_256", "digest": base64.b64encode(bytes.fromhex(digest)).decode()},
        "signature": base64.b64encode(key.sign(component(), ECDSA(SHA256()))).decode(),
    }
    bundle = changed(changed(bundle, "dsseEnvelope", value=None), "messageSignature", value=message)
    assert installer.plan(Signed(bundle), key=publisher.signer).new.provenance.signer == publisher.signer
    with pytest.raises(SourceError, match="signature is for different content"):
        installer.plan(WithSignature(FileSource(tool_file(component(answer=2))), bundle), key=publisher.signer)


def test_other_kinds_of_keys_are_refused(tmp_path: Path) -> None:
    public = generate_private_key(SECP384R1()).public_key()
    (tmp_path / "p384.pub").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    (tmp_path / "private.pub").write_bytes(make_key_pair()[0])
    for name in ("p384.pub", "private.pub"):
        with pytest.raises(SourceError, match="expected ECDSA P-256"):
            read_signer(tmp_path / name)


def test_content_without_digests_to_sign_is_never_signed(installer: Installer, publisher: Publisher) -> None:
    class Unnamed(Signed):
        def fetch(self, *, max_bytes: int) -> Fetched:
            return replace(super().fetch(max_bytes=max_bytes), signed=())

    bundle = sign({"component": digests_to_sign(component())[0]}, publisher.private)[0]
    with pytest.raises(SourceError, match="signature is for different content"):
        installer.plan(Unnamed(bundle), key=publisher.signer)
