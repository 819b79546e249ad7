"""A registry with tools that record their calls, and an approver with scripted answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.compiled import Installation
from tests.postgres_server import StorePlace
from wasmrt import CallbackApprover, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, tool
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest
from wasmrt.agent.policy import ToolPolicy
from wasmrt.core.limits import CODE_LIMITS
from wasmrt.core.postgres import Postgres
from wasmrt.runtime.audit import Receipt


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory, sharing_code: Installation) -> Path:
    return sharing_code(tmp_path_factory.mktemp("installation") / "home")


@pytest.fixture(scope="session")
def runtime(installation: Path) -> Iterator[WasmToolRuntime]:
    """Return one runtime for all tests: the interpreter takes seconds to compile, and calls share no state."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WASMRT_HOME", str(installation))
        # The real limits, except less fuel, so that an endless program ends after half a second.
        patch.setattr("wasmrt.agent.builtin.code_mode._tool.CODE_LIMITS", replace(CODE_LIMITS, fuel=1_000_000_000))
        config = WasmRuntimeConfig(audit=installation / "receipts", audit_record=True)
        with WasmToolRuntime(config) as made:
            yield made


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_place: StorePlace) -> Path:
    """Return an installation whose suspended runs are in a private folder or, by its settings, in PostgreSQL."""
    folder = tmp_path / "home"
    monkeypatch.setenv("WASMRT_HOME", str(folder))
    if isinstance(place := store_place(tmp_path), Postgres):
        (folder / "data").mkdir(parents=True)
        config = folder / "data" / "config.toml"
        config.touch(0o600)
        config.write_text(f'[database]\nurl = "{place.url}"\n')
    return folder


class Desk:
    """Tools with a record of their calls, and an approver."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.asked: list[ApprovalRequest] = []
        self.answers: list[bool | None] = []
        """The approver's answers in order: approve, deny, or None for no answer yet. No answer if the list is empty."""
        self.receipts: list[Receipt] = []

        @tool(effects=[])
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            self.done.append(f"add {a} {b}")
            return a + b

        @tool(effects=["write-filesystem"])
        def write_note(text: str) -> str:
            """Write a note."""
            self.done.append(f"write {text}")
            return f"wrote {text}"

        @tool(effects=["modify-tools"])
        def rewire(text: str = "") -> str:
            """Change the tools."""
            self.done.append("rewire")
            return "done"

        @tool(effects=[])
        def fails(text: str = "no") -> str:
            """Fail."""
            raise ValueError(text)

        self.tools = (add, write_note, rewire, fails)

    def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else None
        return ApprovalAnswer(approved=answer is True, by="" if answer is None else "ann")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def registry(runtime: WasmToolRuntime, desk: Desk) -> ToolRegistry:
    return make_registry(runtime, desk)


def make_registry(runtime: WasmToolRuntime, desk: Desk, policy: ToolPolicy | None = None) -> ToolRegistry:
    """Return a new registry of the desk's tools, like one in a different process."""
    new = ToolRegistry(runtime, approver=CallbackApprover(desk.ask), receipts=desk.receipts.append, policy=policy)
    for each in desk.tools:
        new.register(each)
    new.add_code_mode()
    return new


Run = Callable[..., Any]


@pytest.fixture
def run(registry: ToolRegistry) -> Run:
    """Return a function that runs a program and returns its result."""

    def call(code: str, **circumstances: Any) -> Any:
        return registry.execute("run_code", {"code": code}, **circumstances).result.get("result")

    return call
