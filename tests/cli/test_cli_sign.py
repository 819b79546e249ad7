"""Tests of `wasmrt sign`, and of installing what it signed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.sigstore_instance import SIGNER, Instance
from wasmrt.catalog.sources import FileSource

Run = Callable[..., Result]
Write = Callable[..., Path]
FILE = {"version": "1.0.0", "http": {"allowlist": [{"host": "api.example.com", "methods": ["GET"]}]}}


@pytest.fixture
def key(wasmrt: Run, tmp_path: Path) -> Path:
    """The private key of a new pair; the public key is next to it, as `publisher.pub`."""
    wasmrt("sign", "--new-key", tmp_path / "publisher")
    return tmp_path / "publisher.key"


def test_a_signed_tool_is_installed_after_showing_its_signer(wasmrt: Run, tool_file: Write, key: Path) -> None:
    assert key.stat().st_mode & 0o777 == 0o600
    path, public = tool_file(sidecar=FILE), key.with_suffix(".pub")
    refused = json.loads(wasmrt("install", path, "--key", public, "--yes", "--json", code=2).stderr)
    assert refused["code"] == "signature" and json.loads(wasmrt("list", "--json").stdout) == []

    signed = wasmrt("sign", path, "--key", key).stderr
    assert "with its capability file: parrot.wasm.sigstore.json, key sha256:" in signed
    lines = wasmrt("install", path, "--key", public, "--yes").stderr.splitlines()
    assert lines[0].startswith("parrot 1.0.0, sha256:")
    assert lines[0].endswith("(first use: the signer will be pinned)") and "signed by key sha256:" in lines[0]
    assert lines[1].startswith("parrot, in its author") and lines[2] == "  may GET https://api.example.com, every path"
    assert "signed by key sha256:" in wasmrt("inspect", "parrot").stdout


def test_an_update_without_a_signature_waits_and_grant_shows_it(wasmrt: Run, tool_file: Write, key: Path) -> None:
    path = tool_file(sidecar=FILE)
    wasmrt("sign", path, "--key", key)
    wasmrt("install", path, "--key", key.with_suffix(".pub"), "--yes")
    Path(f"{path}.sigstore.json").rename(path.with_name("elsewhere.json"))
    waits = wasmrt("install", path, code=3).stderr
    assert "+ not signed; version 1 is signed by key" in waits and "version 1 stays active" in waits
    shown = wasmrt("grant", "parrot", code=3).stderr
    assert "+ not signed; version 1 is signed by key" in shown and "from file parrot.wasm, not signed\n" in shown
    found = json.loads(wasmrt("install", path, "--signature", path.with_name("elsewhere.json"), "--json").stdout)
    assert found["unchanged"] and found["signer"] and found["number"] == 1


def test_an_encrypted_key_and_wrong_arguments_are_explained(wasmrt: Run, tool_file: Write, key: Path) -> None:
    path = tool_file()
    private = load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")))
    assert "is encrypted" in wasmrt("sign", path, "--key", key, code=2).stderr
    assert (
        "expected an ECDSA P-256 private key" in wasmrt("sign", path, "--key", key.with_suffix(".pub"), code=2).stderr
    )
    assert "already exists" in wasmrt("sign", "--new-key", key.with_suffix(""), code=2).stderr
    assert "either FILE with --key" in wasmrt("sign", path, code=2).stderr
    assert "expected ECDSA" in wasmrt("install", path, "--key", key, code=2).stderr


@pytest.mark.ci("slow")
def test_a_keyless_signature_is_shown_with_the_age_of_the_trusted_root(
    wasmrt: Run, tool_file: Write, home: Path
) -> None:
    pytest.importorskip("sigstore", reason="needs the extra wasmrt[sigstore]")
    path, instance = tool_file(sidecar=FILE), Instance()
    digests = FileSource(path).fetch(max_bytes=10**6).signed
    bundle = path.with_name("bundle.json")
    bundle.write_bytes(instance.sign(*digests))
    assert "the signature is not valid" in wasmrt("install", path, "--signature", bundle, "--yes", code=2).stderr
    (home / "data").mkdir(exist_ok=True)
    (home / "data/root.json").write_text(json.dumps(instance.trusted_root()))
    wasmrt("config", "set", "install.trusted_root", "root.json")
    first = wasmrt("install", path, "--signature", bundle, "--yes").stderr.splitlines()[0]
    assert f"signed by {SIGNER} (first use: the signer will be pinned)" in first and "days old)" in first
    checks = {each["name"]: each for each in json.loads(wasmrt("doctor", "--json").stdout)}
    found = checks["signatures"]
    assert found["state"] == "ok" and "root.json, newest key " in found["found"] and "days old" in found["found"]
    bundle.write_bytes(instance.sign(*digests, identity="eve@example.com"))
    waits = wasmrt("update", "parrot", code=3).stderr
    assert "+ signed by another signer, eve@example.com" in waits and f"signed by {SIGNER}" in waits
