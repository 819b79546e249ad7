"""A registry with the extension tools, and an operator's folder of installable tools."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from wasmrt.testing import MemorySecrets

from tests.sandbox.border.conftest import Site, site  # noqa: F401  a fixture
from wasmrt import CallbackApprover, WasmRuntimeConfig, WasmToolRuntime, load_registry
from wasmrt.agent.approvals import ApprovalRequest
from wasmrt.agent.registry import ToolRegistry
from wasmrt.catalog import Catalog
from wasmrt.catalog.bundled import FOLDER
from wasmrt.core.places import find_places
from wasmrt.egress.gateway import NetworkConfig

HTTP = {"http": {"allowlist": [{"host": "api.example.com"}]}}
LOGIN = HTTP | {
    "http": HTTP["http"]
    | {
        "credentials": {
            "key": {"secret_name": "parrot_key", "location": {"type": "bearer"}, "host_patterns": ["api.example.com"]}
        }
    }
}


class Agent:
    """A registry with an operator's folder of tools, and an approver that approves unless `answer` is replaced."""

    def __init__(self, registry: ToolRegistry, sources: Path, secrets: MemorySecrets) -> None:
        self.registry = registry
        self.sources = sources
        self.secrets = secrets
        self.asked: list[ApprovalRequest] = []
        self.answer: Callable[[ApprovalRequest], Any] = lambda _: True

    @property
    def catalog(self) -> Catalog:
        return Catalog(find_places().data)

    def call(self, tool: str, /, user: str = "local", **params: Any) -> Any:
        return self.registry.execute(tool, params, user=user).result

    def put(self, name: str = "parrot", sidecar: Any = None, component: str = "echo") -> Path:
        """Copy a component into the operator's folder."""
        path = self.sources / f"{name}.wasm"
        shutil.copy(FOLDER / f"{component}.wasm", path)
        if sidecar is not None:
            (self.sources / f"{name}.capabilities.json").write_text(json.dumps(sidecar))
        return path


MakeAgent = Callable[..., Agent]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home folder that contains only compiled code and its authentication key."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def make_agent(tmp_path: Path, compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeAgent]:
    monkeypatch.setenv("WASMRT_HOME", str(compiled))
    for left in find_places().data.iterdir() if find_places().data.exists() else ():
        if left.suffix != ".key":
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    made: list[Any] = []

    def make(hosts: tuple[str, ...] = (), network: NetworkConfig | None = None, more: str = "") -> Agent:
        sources, config = tmp_path / "sources", find_places().config
        sources.mkdir()
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(
            f'[extensions]\nsources = ["{sources}"]\nhosts = {json.dumps(hosts)}\n'
            f"[tools.filter]\nallow_external = true\n{more}"
        )
        secrets = MemorySecrets()
        settings = WasmRuntimeConfig.load(isolation="in-process", network=network, secrets=secrets)
        runtime = WasmToolRuntime(settings)
        made.append(runtime)

        def decide(request: ApprovalRequest) -> Any:
            agent.asked.append(request)
            return agent.answer(request)

        registry = load_registry(runtime, approver=CallbackApprover(decide))
        made.append(registry)
        agent = Agent(registry, sources, secrets)
        return agent

    yield make
    for each in reversed(made):
        each.close()


@pytest.fixture
def agent(make_agent: MakeAgent) -> Agent:
    return make_agent()
