"""An agent with a sandboxed tool that reads a given file, and approvers for its access requests."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.border.relays import READ
from wasmrt import Capabilities, ToolAnswer, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, load_registry
from wasmrt.agent.access import AccessChoice, AccessRequest, AccessScope, AccessStore, answer_access
from wasmrt.capabilities.file import format_file
from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.places import find_places
from wasmrt.runtime.audit import Receipt

ALLOW = '[tools.filter]\nallow_external = true\n[tools.rules."*"]\npermission = "allow"\n'
READER = READ.component()


@dataclass
class Agent:
    """A registry of one program, and the access requests of its tools."""

    registry: ToolRegistry
    store: AccessStore
    receipts: list[Receipt] = field(default_factory=list)

    def reads(self, path: str, *, user: str = "ann", trace: str = "talk") -> Any:
        """Read a file as the model, and return its content, or the code of the error."""
        answer = self.answer(path, user=user, trace=trace)
        return answer.error.code if answer.output is None else b64decode(answer.output.result).decode()  # type: ignore[union-attr]

    def answer(self, path: str, *, user: str = "ann", trace: str = "talk") -> ToolAnswer:
        (name,) = (each for each in self.registry.tool_names() if each.startswith("reader"))
        call: Any = {"id": "1", "name": name, "arguments": {"path": path}}
        return self.registry.answer(call, user=user, trace=trace)

    def only(self) -> AccessRequest:
        """The only pending request."""
        (found,) = self.store.pending()
        return found

    def grant(self, scope: str = "once", *, narrower: str = "", user: str = "ann") -> AccessRequest:
        """Grant the pending request."""
        choice = AccessChoice(granted=True, scope=AccessScope(scope), narrower=narrower)
        return self.answered(choice, user=user)

    def answered(self, choice: AccessChoice, *, user: str = "ann") -> AccessRequest:
        return answer_access(
            self.store, self.only().id, choice, user=user, by="ops", data=find_places().data,
            receipts=self.receipts.append,
        )  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    find_places().data.mkdir(parents=True)
    find_places().config.write_text(ALLOW)
    monkeypatch.setattr("wasmrt.agent.loading.TOOLS", ())  # avoid compiling each component for each test
    return tmp_path / "home"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("notes/a.md", "notes/b.md", "plans/p.md", "notes/deep/c.md"):
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "files"


def install(
    request: Capabilities | None = None, grant: Capabilities | None = None, *, component: bytes = b"", more: bytes = b""
) -> None:
    """Install the reader with its capability file and its grant."""
    asked, given = request or Capabilities.none(), grant or Capabilities.none()
    component = ComponentBytes((component or READER) + more)
    new = NewVersion("reader", component, ComponentInfo(world="test"), sidecar=format_file(asked))
    Catalog(find_places().data).add(new, format_file(given))


Program = Callable[..., Agent]


@pytest.fixture
def program(files: Path) -> Iterator[Program]:
    """Starts a program with the installed tools. Each program has separate sessions."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Agent:
            config = WasmRuntimeConfig.load(isolation="in-process", workspace=files, audit=None, **settings)
            runtime = stack.enter_context(WasmToolRuntime(config))
            registry = stack.enter_context(load_registry(runtime))
            return Agent(registry, AccessStore(find_places().access))

        yield start


@pytest.fixture
def agent(program: Program) -> Agent:
    """A program with the reader, which has an empty grant."""
    install()
    return program()
