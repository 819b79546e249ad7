"""Keyless signatures, made by a private Sigstore instance: right, changed, moved, expired, and of other identities."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_components import HTTP, component

from tests.sigstore_instance import (
    IDENTITY,
    ISSUER,
    REPOSITORY,
    SIGNER,
    WORKFLOW,
    Instance,
    b64,
    changed,
    statement_of,
)
from wasmrt.agent.config import parse_config
from wasmrt.catalog import Catalog, ComponentInfo
from wasmrt.catalog.installer import Installer, InstallPlan
from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.signing import Signer
from wasmrt.catalog.signing.keys import make_key_pair, sign
from wasmrt.catalog.sources import Fetched, digests_to_sign
from wasmrt.core.errors import ConfigFileError, SourceError

pytest.importorskip("sigstore", reason="needs the extra wasmrt[sigstore]")
DIGEST = digests_to_sign(component())[0]
OTHER = "https://github.com/other/tools"
ENTRY = ("verificationMaterial", "tlogEntries", 0)


class Signed:
    """A component in a registry with prepared bundles."""

    def __init__(self, *bundles: bytes, sidecar: dict[str, object] | None = None) -> None:
        self.bundles, self.sidecar = bundles, None if sidecar is None else json.dumps(sidecar).encode()

    def fetch(self, *, max_bytes: int) -> Fetched:
        data = component()
        fetched = Fetched(data=data, name="answer", origin="here", bundles=self.bundles, sidecar=self.sidecar)
        return replace(fetched, signed=(DIGEST,), resolved=f"oci://example.com/acme/answer@sha256:{DIGEST}")


Plan = Callable[..., InstallPlan]


@pytest.fixture(scope="module")
def instance() -> Instance:
    return Instance()


@pytest.fixture
def policy(instance: Instance, tmp_path: Path) -> Callable[[str], InstallPolicy]:
    """Reads the section [install] of a file next to the trusted root of the instance."""
    (tmp_path / "root.json").write_text(json.dumps(instance.trusted_root()))
    text = '[install]\ntrusted_root = "root.json"\n'
    return lambda more: parse_config(tmp_path / "config.toml", (text + more).encode()).install


@pytest.fixture
def make(policy: Callable[[str], InstallPolicy], tmp_path: Path) -> Callable[..., Installer]:
    def make(more: str = "") -> Installer:
        prepare = lambda *_: ComponentInfo(world="any")  # noqa: E731
        return Installer(Catalog(tmp_path / "data"), prepare=prepare, policy=policy(more))

    return make


Make = Callable[..., Installer]


def test_the_first_installation_pins_the_identity_and_keeps_the_bundle(
    make: Make, instance: Instance, tmp_path: Path
) -> None:
    bundle = instance.sign(DIGEST)
    plan = make().plan(Signed(bundle))
    assert f"signed by {WORKFLOW}@refs/tags/*, issuer {ISSUER} (first use: the signer will be pinned)" in plan.summary
    assert f"(trusted root {tmp_path / 'root.json'}, newest key " in plan.summary and "days old)" in plan.summary
    make().accept(plan)
    stored = Catalog(tmp_path / "data").get("answer").provenance
    assert stored.signer == SIGNER and stored.bundle == bundle.decode()
    again = make().plan(
        Signed(instance.sign(DIGEST, identity=f"{WORKFLOW}@refs/tags/v2", workflow=f"{WORKFLOW}@refs/tags/v2"))
    )
    assert again.is_installed and "first use" not in again.summary


OTHERS: dict[str, dict[str, Any]] = {
    "identity": {"identity": f"{OTHER}/.github/workflows/release.yml@refs/tags/v1.2.0"},
    "branch": {"identity": f"{WORKFLOW}@refs/heads/main"},
    "branch named like a tag": {"identity": f"{WORKFLOW}@refs/heads/x@refs/tags/v1.2.0"},
    "email": {"identity": "ann@example.com"},
    "issuer": {"issuer": "https://gitlab.com"},
    "repository": {"repository": OTHER},
    "no repository": {"repository": ""},
    "workflow": {"workflow": f"{REPOSITORY}/.github/workflows/test.yml@refs/tags/v1.2.0"},
}


@pytest.mark.table
@pytest.mark.parametrize("name", OTHERS)
def test_any_other_signer_waits_for_a_decision(make: Make, instance: Instance, name: str) -> None:
    make().accept(make().plan(Signed(instance.sign(DIGEST))))
    plan = make().plan(Signed(instance.sign(DIGEST, **OTHERS[name])))
    assert plan.needs_decision and plan.more == 1
    assert plan.changes[0].startswith("signed by another signer, ")
    assert plan.changes[0].endswith(f"; version 1 is signed by {SIGNER}")


def test_no_signature_and_a_lower_version_wait_for_a_decision(make: Make, instance: Instance) -> None:
    make().accept(make().plan(Signed(instance.sign(DIGEST), sidecar={"version": "1.2.0"})))
    private, _ = make_key_pair()
    for bundles in ((), (sign({"component": DIGEST}, private)[0],)):
        plan = make().plan(Signed(*bundles, sidecar={"version": "1.2.0"}))
        assert plan.needs_decision and plan.changes[0] == f"not signed; version 1 is signed by {SIGNER}"
    plan = make().plan(Signed(instance.sign(DIGEST), sidecar={"version": "1.1.0"}))
    assert plan.needs_decision and plan.changes[: plan.more] == ("lower version: 1.2.0 became 1.1.0",)


def test_an_additional_signature_does_not_replace_the_pinned_signer(make: Make, instance: Instance) -> None:
    make().accept(make().plan(Signed(instance.sign(DIGEST))))
    other = instance.sign(DIGEST, identity="eve@example.com", repository="", workflow="")
    assert make().plan(Signed(other, instance.sign(DIGEST))).is_installed


def test_the_names_of_other_repositories_and_workflows_are_shown(make: Make, instance: Instance) -> None:
    called = "https://github.com/builders/kit/.github/workflows/build.yml@refs/heads/main"
    summary = make().plan(Signed(instance.sign(DIGEST, identity=called))).summary
    words = f"signed by {called}, issuer {ISSUER}, repository {REPOSITORY}, workflow {WORKFLOW}@refs/tags/*"
    assert words in summary


def test_the_policy_requires_an_identity_and_its_issuer(make: Make, instance: Instance) -> None:
    def rule(source: str = "oci://example.com/acme/", **fields: str) -> str:
        values = {"source": source, "identity": SIGNER.identity, "issuer": ISSUER} | fields
        return "signers.acme = {" + ", ".join(f'{key} = "{value}"' for key, value in values.items()) + "}"

    for accepted in (
        rule(),
        rule(repository=REPOSITORY),
        rule(source="oci://example.com/other", issuer="https://x.test"),
    ):
        assert make(accepted).plan(Signed(instance.sign(DIGEST))).new.provenance.signer == SIGNER
    for refused in (rule(issuer="https://gitlab.com"), rule(identity="ann@example.com"), rule(repository=OTHER)):
        with pytest.raises(SourceError, match=r"signed by https://github\.com/acme/.*; it must be signed by") as caught:
            make(refused).plan(Signed(instance.sign(DIGEST)))
        assert caught.value.code == "signature"
    with pytest.raises(SourceError, match="the tool is not signed; it must be signed by"):
        make(rule()).plan(Signed())
    with pytest.raises(SourceError, match="the operator requires that this source is signed by"):
        make(rule(issuer="https://gitlab.com")).plan(Signed(instance.sign(DIGEST)), key=SIGNER)
    assert make("require_signatures = true").plan(Signed(instance.sign(DIGEST))).new.provenance.signer == SIGNER


def test_mistakes_in_rules_for_identities_are_reported(policy: Callable[[str], InstallPolicy]) -> None:
    start = 'signers.acme = { source = "oci://example.com/", '
    for text in (
        'identity = "ann@example.com" }',
        'issuer = "https://example.com" }',
        'identity = "ann@example.com", issuer = "https://example.com", key = "a.pub" }',
        'identity = "ann@example.com", issuer = "" }',
        'key = "a.pub", repository = "https://example.com" }',
        f'identity = "{IDENTITY}", issuer = "{ISSUER}" }}',
    ):
        with pytest.raises(ConfigFileError, match="install"):
            policy(start + text)


def test_a_locked_signer_is_required_with_all_its_fields(make: Make, instance: Instance) -> None:
    assert make().plan(Signed(instance.sign(DIGEST)), key=SIGNER).summary
    for field in ("identity", "issuer", "repository", "workflow"):
        with pytest.raises(SourceError, match="must be signed by"):
            make().plan(Signed(instance.sign(DIGEST)), key=SIGNER._replace(**{field: OTHER}))
    with pytest.raises(SourceError, match="must be signed by"):
        make().plan(Signed(instance.sign(DIGEST)), key=Signer(repository=REPOSITORY))


def test_every_older_form_of_a_bundle_is_verified(make: Make, instance: Instance) -> None:
    for version in (1, 2, 3):
        bundle = instance.sign(DIGEST, version=f"application/vnd.dev.sigstore.bundle+json;version=0.{version}")
        assert make().plan(Signed(bundle)).new.provenance.signer == SIGNER


def test_a_signature_of_the_bytes_alone_is_verified_as_well(make: Make, instance: Instance) -> None:
    good = instance.sign_bytes(component())
    assert make().plan(Signed(good)).new.provenance.signer == SIGNER
    digest = ("messageSignature", "messageDigest", "digest")
    for bundle in (
        instance.sign_bytes(b"other"),
        changed(instance.sign_bytes(b"other"), *digest, value=b64(bytes.fromhex(DIGEST))),
        _moved(good, instance.sign_bytes(component()), *ENTRY),
        Instance().sign_bytes(component()),
    ):
        with pytest.raises(SourceError, match="the signature is not valid"):
            make().plan(Signed(bundle))


Break = Callable[[Instance, bytes, bytes], bytes]
MATERIAL, ENVELOPE, PROOF = "verificationMaterial", "dsseEnvelope", (*ENTRY, "inclusionProof")


def _value(*keys: str | int, value: object) -> Break:
    return lambda _instance, good, _other: changed(good, *keys, value=value)


def _from_other(*keys: str | int) -> Break:
    return lambda _instance, good, other: _moved(good, other, *keys)


def _signed(*digests: str, **fields: Any) -> Break:
    return lambda instance, _good, _other: instance.sign(*digests, **fields)


INVALID: dict[str, Break] = {
    "other instance": lambda *_: Instance().sign(DIGEST),
    "other authority": lambda instance, *_: _with(instance, ca=Instance().ca).sign(DIGEST),
    "other certificate log": lambda instance, *_: _with(instance, certificates=Instance().ca).sign(DIGEST),
    "other transparency log": lambda instance, *_: _with(instance, log=Instance().log).sign(DIGEST),
    "logged after the certificate expired": _signed(DIGEST, minutes=11),
    "logged before the certificate began": _signed(DIGEST, minutes=-1),
    "changed time": _value(*ENTRY, "integratedTime", value="1777896120"),
    "no promise and no timestamp": _value(*ENTRY, "inclusionPromise", value=None),
    "promise of another entry": _from_other(*ENTRY, "inclusionPromise"),
    "no proof": _value(*PROOF, value=None),
    "no checkpoint": _value(*PROOF, "checkpoint", value=None),
    "checkpoint of another entry": _from_other(*PROOF, "checkpoint"),
    "other hashes": _value(*PROOF, "hashes", value=[b64(b"0" * 32)]),
    "other root hash": _value(*PROOF, "rootHash", value=b64(b"0" * 32)),
    "other place in the tree": _value(*PROOF, "logIndex", value="0"),
    "entry of another bundle": _from_other(*ENTRY),
    "no entry": _value(MATERIAL, "tlogEntries", value=[]),
    "two entries": lambda _, good, other: changed(
        good, MATERIAL, "tlogEntries", value=[json.loads(each)[MATERIAL]["tlogEntries"][0] for each in (good, other)]
    ),
    "certificate of another bundle": _from_other(MATERIAL, "certificate"),
    "certificate that is none": _value(MATERIAL, "certificate", "rawBytes", value=b64(b"0")),
    "no certificate": _value(MATERIAL, "certificate", value=None),
    "changed statement": _value(ENVELOPE, "payload", value=b64(statement_of("0" * 64))),
    "signature with another key": _signed(DIGEST, signs=False),
    "signature of another bundle": _from_other(ENVELOPE, "signatures"),
    "other payload type": _signed(DIGEST, kind=b"text/plain"),
    "other version": _signed(DIGEST, version="application/vnd.dev.sigstore.bundle.v0.9+json"),
    "no issuer": _signed(DIGEST, issuer=""),
    "other content": _signed("0" * 64),
    "other content as well": _signed(DIGEST, "0" * 64),
    "other predicate": _signed(statement=statement_of(DIGEST, predicate="https://slsa.dev/provenance/v1")),
}


def _with(instance: Instance, **keys: object) -> Instance:
    made = Instance()
    made.__dict__.update(instance.__dict__ | keys)
    return made


def _moved(bundle: bytes, other: bytes, *keys: str | int) -> bytes:
    value = json.loads(other)
    for key in keys:
        value = value[key]
    return changed(bundle, *keys, value=value)


@pytest.mark.table
@pytest.mark.parametrize("name", INVALID)
def test_invalid_keyless_signatures_are_refused(make: Make, instance: Instance, name: str) -> None:
    bundle = INVALID[name](instance, instance.sign(DIGEST), instance.sign(DIGEST))
    with pytest.raises(SourceError, match="the signature is not valid") as caught:
        make().plan(Signed(bundle))
    assert caught.value.code == "signature"


def test_a_second_spelling_of_a_field_does_not_replace_the_verified_one(make: Make, instance: Instance) -> None:
    good = json.loads(instance.sign("0" * 64))
    wanted = json.loads(instance.sign(DIGEST))["dsseEnvelope"]
    for one, two in (("dsseEnvelope", "dsse_envelope"), ("dsse_envelope", "dsseEnvelope")):
        tree = {key: value for key, value in good.items() if key != "dsseEnvelope"}
        with pytest.raises(SourceError, match="the signature is not valid"):
            make().plan(Signed(json.dumps(tree | {one: wanted, two: good["dsseEnvelope"]}).encode()))


def test_a_capability_file_that_the_signature_does_not_cover_counts_as_unsigned(make: Make, instance: Instance) -> None:
    class Beside(Signed):
        def fetch(self, *, max_bytes: int) -> Fetched:
            return replace(super().fetch(max_bytes=max_bytes), signed=(DIGEST, "1" * 64))

    plan = make().plan(Beside(instance.sign(DIGEST), sidecar=HTTP))
    assert plan.problem == f"the signature by {SIGNER} does not cover the capability file"
    assert make().plan(Beside(instance.sign(DIGEST, "1" * 64), sidecar=HTTP)).new.provenance.signer == SIGNER


def test_nothing_is_sent_while_a_signature_is_verified(
    make: Make, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert make().plan(Signed(instance.sign(DIGEST))).new.provenance.signer == SIGNER


def test_the_default_root_is_the_one_of_the_package(tmp_path: Path, instance: Instance) -> None:
    installer = Installer(Catalog(tmp_path), prepare=lambda *_: ComponentInfo(world="any"))
    with pytest.raises(SourceError, match="the signature is not valid"):
        installer.plan(Signed(instance.sign(DIGEST)))


def test_an_invalid_trusted_root_is_named(make: Make, instance: Instance, tmp_path: Path) -> None:
    installer, root = make(), tmp_path / "root.json"
    good = json.loads(root.read_text())
    for text in ("", "[]", "{}", '{"tlogs": 1}', json.dumps(good | {"mediaType": "text/plain"}), "x" * 2_000_000):
        root.write_text(text)
        with pytest.raises(SourceError, match=r"root\.json"):
            installer.plan(Signed(instance.sign(DIGEST)))
    for missing in ("tlogs", "ctlogs", "certificateAuthorities"):
        root.write_text(json.dumps(good | {missing: []}))
        with pytest.raises(SourceError):
            installer.plan(Signed(instance.sign(DIGEST)))
    root.unlink()
    with pytest.raises(SourceError, match=r"trusted root 'root\.json' does not exist"):
        installer.plan(Signed(instance.sign(DIGEST)))


def test_without_the_extra_the_signature_does_not_count_and_the_extra_is_named(
    make: Make, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wasmrt.catalog.signing.keyless", None)
    plan = make().plan(Signed(instance.sign(DIGEST)))
    assert plan.new.provenance.signer is None and "pip install 'wasmrt[sigstore]'" in plan.summary
    with pytest.raises(SourceError, match=r"wasmrt\[sigstore\]'; it must be signed by"):
        make().plan(Signed(instance.sign(DIGEST)), key=SIGNER)


def test_mutated_bundles_end_with_the_same_error(make: Make, instance: Instance) -> None:
    installer, good = make(), instance.sign(DIGEST)
    for step in range(0, len(good), 97):
        bundle = good[:step] + bytes([good[step] ^ 1]) + good[step + 1 :]
        try:
            assert installer.plan(Signed(bundle)).new.provenance.signer in (None, SIGNER)
        except SourceError as error:
            assert error.code == "signature", step
