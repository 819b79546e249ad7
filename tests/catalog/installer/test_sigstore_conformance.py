"""The cases of sigstore's conformance suite, which are bundles with the result that a client must have.

Set `WASMRT_SIGSTORE_CONFORMANCE` to a checkout of github.com/sigstore/sigstore-conformance.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("sigstore", reason="needs wasmrt[sigstore]")

from wasmrt.catalog.signing import Signer, _bundle, verify
from wasmrt.catalog.signing.keys import read_signer
from wasmrt.catalog.sources import Fetched
from wasmrt.core.errors import SourceError

_SUITE = os.environ.get("WASMRT_SIGSTORE_CONFORMANCE")
pytestmark = [
    pytest.mark.ci("peers"),
    pytest.mark.skipif(_SUITE is None, reason="WASMRT_SIGSTORE_CONFORMANCE is not set"),
]
IDENTITY = (
    "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/"
    "extremely-dangerous-oidc-beacon.yml@refs/heads/main"
)
ISSUER = "https://token.actions.githubusercontent.com"
ATTESTATION = "it attests something else than cosign's signatures"
DIFFERENCES = {
    "happy-path-intoto-in-dsse-v3": ATTESTATION,
    "intoto-with-custom-trust-root": ATTESTATION,
    "rekor2-dsse-happy-path": ATTESTATION,
    "trust-root-tsa-validity-end-inclusive": "its time is the end of a validity, which sigstore-python excludes",
}
"""Valid bundles that are refused, each with the reason."""
OTHER_STATEMENTS = {
    "intoto-with-custom-trust-root": "sigstore-python does not read log entries of the kind intoto",
    "trust-root-tsa-validity-end-inclusive": DIFFERENCES["trust-root-tsa-validity-end-inclusive"],
}
"""Valid bundles that are refused even if the statement of each case is accepted."""


def verdict(case: Path) -> str:
    """Return an empty string if the bundle of a case is accepted, and otherwise the reason."""

    def text(name: str, default: str) -> str:
        path = case / name
        return path.read_text().strip() if path.exists() else default

    artifact = case / "artifact" if (case / "artifact").exists() else case.parent / "a.txt"
    digest = hashlib.sha256(artifact.read_bytes()).hexdigest()
    key, root = case / "key.pub", case / "trusted_root.json"
    bundle = (case / "bundle.sigstore.json").read_bytes()
    fetched = Fetched(data=b"", name="a", origin="a", bundles=(bundle,), signed=(digest,))
    try:
        signer = read_signer(key) if key.exists() else Signer("", text("identity", IDENTITY), text("issuer", ISSUER))
        return "" if verify(fetched, [], [signer], root if root.exists() else None).signer else "unsigned"
    except SourceError as error:
        return error.message


def accept_statement(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let wasmrt accept the kind of statement in the bundle of a case, so that only its signature decides."""
    with suppress(ValueError, KeyError):
        payload = json.loads((case / "bundle.sigstore.json").read_text())["dsseEnvelope"]["payload"]
        statement = json.loads(base64.b64decode(payload))
        monkeypatch.setattr(_bundle, "PREDICATE", statement["predicateType"])
        monkeypatch.setattr(_bundle, "_STATEMENT", statement["_type"])


@pytest.mark.parametrize("any_statement", [False, True])
def test_every_case_has_its_result_or_is_refused_for_a_known_reason(
    monkeypatch: pytest.MonkeyPatch, any_statement: bool
) -> None:
    assert _SUITE is not None
    cases = sorted(path for path in (Path(_SUITE) / "test/assets/bundle-verify").iterdir() if path.is_dir())
    refused: dict[str, str] = {}
    for case in cases:
        if any_statement:
            accept_statement(case, monkeypatch)
        refused[case.name] = verdict(case)
    differing = {name: reason for name, reason in refused.items() if name.endswith("_fail") != bool(reason)}
    print(f"{len(cases) - len(differing)} of {len(cases)} cases as expected; the others: {differing}")
    assert len(cases) >= 70
    assert not [name for name in differing if name.endswith("_fail")], "an invalid bundle was accepted"
    assert differing.keys() == (OTHER_STATEMENTS if any_statement else DIFFERENCES).keys()
