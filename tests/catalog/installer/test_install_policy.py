"""The operator's policy: allowed hosts, and signers that sources must have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made_components import component

from wasmrt.agent.config import parse_config
from wasmrt.catalog import Catalog, ComponentInfo
from wasmrt.catalog.installer import Installer
from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.signing.keys import make_key_pair, read_signer, sign
from wasmrt.catalog.sources import Fetched, digests_to_sign
from wasmrt.core.errors import ConfigFileError, SourceError


@pytest.fixture
def configured(tmp_path: Path) -> Callable[[str], InstallPolicy]:
    """Reads the section [install] of a file in a folder with the keys `a.pub`, `b.pub` and `c.pub`."""
    for name in "abc":
        private, public = make_key_pair()
        (tmp_path / f"{name}.key").write_bytes(private)
        (tmp_path / f"{name}.pub").write_bytes(public)
    return lambda text: parse_config(tmp_path / "config.toml", f"[install]\n{text}".encode()).install


Configured = Callable[[str], InstallPolicy]


def test_only_listed_hosts_are_allowed(configured: Configured) -> None:
    policy = configured('hosts = ["Files.example.com", "registry.example.com:5000"]')
    for url in (
        "https://files.example.com/a.wasm",
        "https://FILES.example.com:8443/a.wasm#sha256=0",
        "oci://registry.example.com:5000/a/json:1",
        "oci://files.example.com/json@sha256:0",
    ):
        policy.check_source(url)
    for url in (
        "https://registry.example.com/a.wasm",
        "oci://registry.example.com/a",
        "https://files.example.com.example.org/a.wasm",
        "https://example.org/files.example.com",
        "https://files.example.com@example.org/a.wasm",
    ):
        with pytest.raises(SourceError):
            policy.check_source(url)
    InstallPolicy().check_source("https://example.org/a.wasm")
    with pytest.raises(SourceError, match="has not allowed"):
        configured("hosts = []").check_source("https://files.example.com/a.wasm")


def test_the_longest_prefix_decides_which_signers_suffice(configured: Configured, tmp_path: Path) -> None:
    policy = configured(f"""signers.all = {{ source = "https://example.com", key = "a.pub" }}
        signers.acme = {{ source = "https://example.com/acme/", key = "b.pub" }}
        signers.too = {{ source = "https://EXAMPLE.com:443/acme", key = "c.pub" }}
        signers.registry = {{ source = "oci://example.com/acme/json", key = "b.pub" }}
        signers.folder = {{ source = "{tmp_path}/tools", key = "a.pub" }}""")
    a, b, c = (read_signer(tmp_path / f"{name}.pub") for name in "abc")
    (tmp_path / "tools").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "tools")
    for source, signers in {
        "https://example.com/x.wasm#sha256=0": (a,),
        "https://example.com/acmes/x.wasm": (a,),
        "https://example.com/acme/x.wasm?token=1": (b, c),
        "https://example.com/%61cme/x.wasm": (b, c),
        "https://example.com.example.org/acme/x.wasm": (),
        "https://example.com:8443/acme/x.wasm": (),
        "oci://example.com/acme/json:1.0": (b,),
        "oci://example.com/acme/json@sha256:0": (b,),
        "oci://example.com/acme/json-c:1.0": (),
        f"{tmp_path}/tools/x.wasm": (a,),
        f"{tmp_path}/link/x.wasm": (a,),
        f"{tmp_path}/other/../tools/x.wasm": (a,),
        f"{tmp_path}/toolset/x.wasm": (),
    }.items():
        assert policy.list_signers(source) == signers, source


class Signed:
    """A component at a URL, with the signatures of some keys."""

    def __init__(self, folder: Path, keys: str) -> None:
        self.digests = digests_to_sign(component())
        private = [(folder / f"{key}.key").read_bytes() for key in keys]
        self.bundles = tuple(sign({"component": self.digests[0]}, key)[0] for key in private)

    def fetch(self, *, max_bytes: int) -> Fetched:
        fetched = Fetched(data=component(), name="answer", origin="here", signed=self.digests)
        return replace(fetched, bundles=self.bundles, resolved="https://example.com/acme/answer.wasm#sha256=0")


def test_only_tools_with_a_required_signer_are_planned(configured: Configured, tmp_path: Path) -> None:
    def plan(text: str, keys: str, key: str = "") -> str:
        installer = Installer(
            Catalog(tmp_path / "data"), prepare=lambda *_: ComponentInfo(world="any"), policy=configured(text)
        )
        given = read_signer(tmp_path / f"{key}.pub") if key else None
        return installer.plan(Signed(tmp_path, keys), key=given).summary

    acme = 'signers.acme = { source = "https://example.com/acme/", key = "a.pub" }'
    for keys in ("a", "ba"):
        assert str(read_signer(tmp_path / "a.pub")) in plan(acme, keys)
    for keys in ("", "b"):
        with pytest.raises(SourceError, match="must be signed by"):
            plan(acme, keys)
    with pytest.raises(SourceError, match="the operator requires that this source is signed by"):
        plan(acme, "b", "b")  # --key does not replace the policy
    with pytest.raises(SourceError, match=r"tools are signed, got not signed \(signed with an unknown key"):
        plan("require_signatures = true", "a")
    assert plan("require_signatures = true", "a", "a")
    assert "not signed" in plan("require_signatures = false", "")


def test_a_missing_key_refuses_the_source(configured: Configured, tmp_path: Path) -> None:
    policy = configured('signers.acme = { source = "https://example.com/acme/", key = "gone.pub" }')
    with pytest.raises(SourceError, match="does not exist"):
        policy.check_signer("https://example.com/acme/x.wasm", None)


def test_mistakes_in_the_section_are_reported(configured: Configured) -> None:
    for text in (
        "host = []",
        "hosts = 1",
        'hosts = ["*.example.com"]',
        'hosts = ["https://example.com"]',
        "require_signatures = 1",
        'signers = ["a.pub"]',
        'signers.acme = "a.pub"',
        'signers.acme = { source = "https://example.com/" }',
        'signers.acme = { source = "https://example.com/", key = "a.pub", keys = "b.pub" }',
        'signers.acme = { source = "example.com/", key = "a.pub" }',
        'signers.acme = { source = "http://example.com/", key = "a.pub" }',
        'signers.acme = { source = "https://example.com/../a", key = "a.pub" }',
        'signers.acme = { source = "https://example.com/", key = 1 }',
    ):
        with pytest.raises(ConfigFileError, match="install"):
            configured(text)
