from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from wasmrt.testing import FakeResolver, MemorySecrets, ScriptedServer, http_response

from tests.catalog.packages.desk_package import component, write_package
from tests.compiled import Installation
from wasmrt import PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.capabilities import Capabilities
from wasmrt.catalog.package import Package, open_files, read_package
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.secrets import Secret

API, VAULT, OTHER = "api.desk.example", "vault.desk.example", "other.example"
TOKEN, KEY = "token-of-the-" + "desk-1", "key-of-the-" + "vault-2"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(sharing_code(tmp_path / "home")))


@pytest.fixture(scope="session")
def desk_wasm() -> bytes:
    return component()


@dataclass
class Desk:
    """A server that responds for every host of the package, and the package with access to it."""

    server: ScriptedServer
    package: Package
    runtime: WasmToolRuntime
    secrets: MemorySecrets

    def prepare(self, grant: Capabilities | None = None) -> PreparedTool:
        package = self.package
        asked = package.request.capabilities if grant is None else grant
        return self.runtime.prepare(package.id, package.component, asked, tools=package.tools)

    def at(self, host: str) -> str:
        return f"{host}:{self.server.port}"


@pytest.fixture
def desk(desk_wasm: bytes, tmp_path: Path) -> Iterator[Desk]:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(API, VAULT, OTHER).configure_cert(tls)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    store = MemorySecrets()
    store.set("local", "desk_token", Secret(TOKEN))
    store.set("local", "vault_key", Secret(KEY))
    with ScriptedServer(lambda _request, _connection: http_response(b"done"), tls=tls) as server:
        folder = write_package(tmp_path / "desk", desk_wasm, port=server.port)
        network = NetworkConfig(
            unsafe_allowed_networks=("127.0.0.0/8",),
            resolver=FakeResolver({host: ["127.0.0.1"] for host in (API, VAULT, OTHER)}),
            ca_file=ca_file,
        )
        config = WasmRuntimeConfig(secrets=store, network=network, cache_compiled=False)
        with WasmToolRuntime(config) as runtime:
            yield Desk(server, read_package(open_files(folder)), runtime, store)
