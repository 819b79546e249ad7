"""Registries and tools of other projects: wkg's crate, Wassette's layout, and a registry with the API of referrers.

Set `WASMRT_TEST_WASSETTE` to a program of Wassette that is not in the PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import pytest
import trustme
from click.testing import Result

from tests.cli.distribution import build, build_wkg, needs_distribution, serve
from tests.cli.registry import COMPONENT, REQUEST, trust

pytestmark = [pytest.mark.ci("peers"), pytest.mark.timeout(900)]  # building wkg takes minutes on a busy machine
Run = Callable[..., Result]
HERE = Path(__file__).parent
WASSETTE = os.environ.get("WASMRT_TEST_WASSETTE") or shutil.which("wassette")
POLICY = """\
version: "1.0"
permissions:
  network:
    allow:
      - host: api.example.com
"""


@pytest.fixture(scope="module")
def wkg() -> Callable[..., str]:
    """Runs the program in tests/cli/wkg."""
    program = build_wkg()

    def run(*arguments: str | Path) -> str:
        ended = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


class Hosts(NamedTuple):
    """Two processes of one registry."""

    tls: str
    plain: str


@pytest.fixture
def authority(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    trust(home, authority)
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "tls.pem"))
    return authority


@pytest.fixture
def hosts(authority: trustme.CA, tmp_path: Path) -> Iterator[Hosts]:
    pem, store = tmp_path / "tls.pem", tmp_path / "store"
    tls = f"http: {{addr: '127.0.0.1:0', tls: {{certificate: {pem}, key: {pem}}}}}\n"
    with ExitStack() as stack:
        ports = [
            stack.enter_context(serve(tmp_path / name, settings, store=store))
            for name, settings in (("tls", tls), ("plain", "http: {addr: '127.0.0.1:0'}\n"))
        ]
        yield Hosts(*(f"127.0.0.1:{port}" for port in ports))


@needs_distribution
def test_wkg_reads_a_pushed_component_and_its_description(
    wasmrt: Run, hosts: Hosts, wkg: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "parrot.wasm").write_bytes(COMPONENT)
    (tmp_path / "parrot.capabilities.json").write_bytes(REQUEST)
    pushed = json.loads(
        wasmrt("push", f"oci://{hosts.tls}/acme/parrot:1.0.0", tmp_path / "parrot.wasm", "--json").stdout
    )
    told = wkg("pull", f"{hosts.plain}/acme/parrot:1.0.0", tmp_path / "pulled.wasm")
    digest, kind, imports, exports = told.removesuffix("\n").split(" ")
    assert pushed["resolved"].endswith(digest) and kind == "wasip2"
    assert (tmp_path / "pulled.wasm").read_bytes() == COMPONENT
    # wkg's own description of the same component is the same.
    wkg("push", f"{hosts.plain}/acme/again:1.0.0", tmp_path / "parrot.wasm")
    again = wkg("pull", f"{hosts.plain}/acme/again:1.0.0", tmp_path / "pulled.wasm").removesuffix("\n").split(" ")
    assert [sorted(names.split(",")) for names in again[2:]] == [sorted(n.split(",")) for n in (imports, exports)]


@needs_distribution
def test_a_component_that_wkg_pushed_is_installed_without_capabilities(
    wasmrt: Run, hosts: Hosts, wkg: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "parrot.wasm").write_bytes(COMPONENT)
    wkg("push", f"{hosts.plain}/acme/parrot:1.0.0", tmp_path / "parrot.wasm")
    wasmrt("install", f"oci://{hosts.tls}/acme/parrot:1.0.0", "--yes")
    assert "api.example.com" not in wasmrt("inspect", "parrot").stdout
    assert "hi" in wasmrt("run", "parrot", '{"message": "hi"}').stdout


@needs_distribution
def test_the_policy_of_wassettes_layout_becomes_the_request(
    wasmrt: Run, hosts: Hosts, wkg: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "parrot.wasm").write_bytes(COMPONENT)
    (tmp_path / "policy.yaml").write_text(POLICY)
    reference = f"{hosts.plain}/acme/parrot:1.0.0"
    wkg("push-wassette", reference, tmp_path / "parrot.wasm", tmp_path / "policy.yaml")
    shown = wasmrt("install", f"oci://{hosts.tls}/acme/parrot:1.0.0", "--yes").stderr
    assert "api.example.com" in shown


@needs_distribution
@pytest.mark.skipif(WASSETTE is None, reason="needs wassette")
def test_wassette_loads_a_pushed_and_signed_component(wasmrt: Run, home: Path, hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "parrot.wasm").write_bytes(COMPONENT)
    (tmp_path / "parrot.capabilities.json").write_bytes(REQUEST)
    wasmrt("sign", "--new-key", tmp_path / "publisher")
    reference = f"oci://{hosts.tls}/acme/parrot:1.0.0"
    wasmrt("push", reference, tmp_path / "parrot.wasm", "--sign", tmp_path / "publisher.key")
    ended = subprocess.run(
        [str(WASSETTE), "component", "load", reference, "--component-dir", tmp_path / "components"],
        env={"HOME": str(tmp_path), "SSL_CERT_FILE": str(home / "ca.pem")},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "components/acme_parrot.wasm").read_bytes() == COMPONENT


@pytest.fixture
def with_referrers(authority: trustme.CA, tmp_path: Path) -> Iterator[str]:
    """A registry with the API of referrers; its host."""
    program = build(HERE / "referrers", ["go", "mod", "download"], ["go", "build", "-o", ".built/"], "referrers")
    with subprocess.Popen([program, tmp_path / "tls.pem"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_signature_is_stored_and_found_in_the_api_of_referrers(
    wasmrt: Run, home: Path, authority: trustme.CA, with_referrers: str, tmp_path: Path
) -> None:
    url = f"oci://{with_referrers}/acme/parrot:1.0.0"
    (tmp_path / "parrot.wasm").write_bytes(COMPONENT)
    wasmrt("sign", "--new-key", tmp_path / "publisher")
    signed = ("push", url, tmp_path / "parrot.wasm", "--sign", tmp_path / "publisher.key", "--json")
    digest = json.loads(wasmrt(*signed).stdout)["resolved"].partition("@")[2]
    tls = ssl.create_default_context(cafile=os.fspath(home / "ca.pem"))

    def get(path: str) -> dict[str, list[object]]:
        with urlopen(f"https://{with_referrers}/v2/acme/parrot/{path}", context=tls) as reply:
            return json.loads(reply.read())  # type: ignore[no-any-return]

    assert len(get(f"referrers/{digest}")["manifests"]) == 1
    assert get("tags/list")["tags"] == ["1.0.0"]  # and no tag with a list of signatures
    assert "signed by key" in wasmrt("install", url, "--key", tmp_path / "publisher.pub", "--yes").stderr
    with (home / "data/config.toml").open("a") as file:
        file.write(f'[install]\nsearch = ["oci://{with_referrers}"]\n')
    assert json.loads(wasmrt("search", "parrot", "--json").stdout)["tools"][0]["reference"] == url
