"""A registry of functions, and a component that sends the HTTP request in its params."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import trustme
from wasmrt.testing import http_response

from tests.compiled import Installation
from tests.sandbox.border.conftest import Site, only_tool, site  # noqa: F401  a fixture
from tests.sandbox.border.relays import agent_http
from wasmrt import CallbackApprover, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, tool
from wasmrt.agent.approvals import ApprovalRequest


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(sharing_code(tmp_path / "home")))


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@tool(effects=["read-filesystem"])
def read_note(name: str, limit: int = 5) -> str:
    """Read a note.

    Args:
        name: The note's name.
        limit: Lines at most.
    """
    return f"{name}, {limit} lines"


class Notebook:
    """Tools that record their calls in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.asked: list[ApprovalRequest] = []
        self.answers: dict[str, bool] = {}

        @tool(effects=["write-filesystem"])
        def write_note(name: str, text: str = "") -> str:
            """Write a note."""
            self.done.append(name)
            return f"wrote {name}, number {len(self.done)}"

        @tool(actions={"list": ["network"], "get": ["network"], "close": ["external-write"]})
        def issues(action: Literal["list", "get", "close"] = "close", number: int = 0) -> str:
            """Work with issues."""
            self.done.append(f"{action} {number}")
            return f"{action} {number}"

        @tool
        def anything() -> str:
            """Do anything."""
            self.done.append("anything")
            return "done"

        self.write_note, self.issues, self.anything = write_note, issues, anything

    async def ask(self, request: ApprovalRequest) -> bool:
        """Give the answer that the test set; by default, deny."""
        self.asked.append(request)
        return self.answers.get(str(request.params.get("name", request.tool)), False)


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
def registry(notebook: Notebook) -> ToolRegistry:
    made = ToolRegistry(approver=CallbackApprover(notebook.ask))
    for each in (read_note, notebook.write_note, notebook.issues, notebook.anything):
        made.register(each)
    return made


Counted = Callable[[], tuple[Site, list[str]]]


@pytest.fixture
def counted(site: Callable[..., Site]) -> Counted:  # noqa: F811
    """Creates a server that answers with the HTTP method, and the list of received methods."""

    def make() -> tuple[Site, list[str]]:
        methods: list[str] = []

        def answer(request: Any, _: Any) -> bytes:
            methods.append(request.method)
            return http_response(request.method.encode())

        return site(answer), methods

    return make


@pytest.fixture
def requester(counted: Counted) -> Iterator[Callable[..., Any]]:
    """Creates a registry with a component `tool` that sends the request in its params.

    Also returns the allowed URL, and the list of methods received there.
    """
    runtimes: list[WasmToolRuntime] = []

    def make(isolation: str = "in-process", **settings: Any) -> tuple[ToolRegistry, Site, list[str]]:
        here, methods = counted()
        runtime = WasmToolRuntime(WasmRuntimeConfig(network=here.network, isolation=isolation, cache_compiled=False))  # type: ignore[arg-type]
        runtimes.append(runtime)
        prepared = only_tool(runtime, agent_http("").component(), here.grant())
        registry = ToolRegistry(runtime, **settings)
        registry.register(prepared)
        return registry, here, methods

    yield make
    for runtime in runtimes:
        runtime.close()
