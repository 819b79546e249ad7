"""A skill store, and a registry with the skill tools and an approver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compiled import Installation
from wasmrt import CallbackApprover, ToolPolicy, ToolRegistry
from wasmrt.agent.approvals import ApprovalRequest
from wasmrt.agent.builtin.skills import SkillSources, SkillStore, SkillTools
from wasmrt.core.places import Places, find_places
from wasmrt.egress.gateway import EgressGateway, NetworkConfig
from wasmrt.egress.leaks import LeakDetector
from wasmrt.runtime.audit import Receipt


def write_skill(folder: Path, name: str = "notes", text: str = "Write notes.", **files: bytes) -> Path:
    """Write a skill into a folder, and return its path."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About {name}.\n---\n{text}\n")
    for path, content in files.items():
        (place / path).write_bytes(content)
    return place


class Agent:
    """A registry with the skill tools. Its approver approves every request unless `answer` is replaced."""

    def __init__(
        self, places: Places, sources: Path, hosts: tuple[str, ...], network: NetworkConfig | None,
        policy: ToolPolicy | None,
    ) -> None:  # fmt: skip
        self.places = places
        self.sources = sources
        self.asked: list[ApprovalRequest] = []
        self.receipts: list[Receipt] = []
        self.answer: Callable[[ApprovalRequest], Any] = lambda _: True
        self.store = SkillStore(places)
        approver = CallbackApprover(self._decide)
        self.registry = ToolRegistry(policy=policy, approver=approver, receipts=self.receipts.append)
        tools = SkillTools(self.store, SkillSources((sources,), hosts), lambda: EgressGateway(network), LeakDetector())
        for tool in tools.all():
            self.registry.register(tool, builtin=True)

    def _decide(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return self.answer(request)

    def call(self, tool: str, /, **params: Any) -> Any:
        return self.registry.execute(tool, params).result


MakeAgent = Callable[..., Agent]


@pytest.fixture
def places(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setenv("WASMRT_HOME", str(sharing_code(tmp_path / "home")))
    return find_places()


@pytest.fixture
def make_agent(places: Places, tmp_path: Path) -> Iterator[MakeAgent]:
    def make(
        hosts: tuple[str, ...] = (), network: NetworkConfig | None = None, policy: ToolPolicy | None = None
    ) -> Agent:
        sources = tmp_path / "sources"
        sources.mkdir(exist_ok=True)
        return Agent(places, sources, hosts, network, policy)

    return make


@pytest.fixture
def agent(make_agent: MakeAgent) -> Agent:
    return make_agent()
