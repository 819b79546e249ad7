"""Fixtures: a workspace, and the bundled tools in a runtime with it, compiled once for all tests."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.first_party.web import Web, serve_web
from tests.compiled import Installation
from wasmrt import PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.catalog.search import WebSearch
from wasmrt.core.errors import ToolError
from wasmrt.egress.rates._window import MemoryWindows

Run = Callable[..., Any]


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory, sharing_code: Installation) -> Iterator[Path]:
    """Return a private installation."""
    folder = sharing_code(tmp_path_factory.mktemp("installation") / "home")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WASMRT_HOME", str(folder))
        yield folder


@pytest.fixture(scope="package")
def place(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place") / "work"


@pytest.fixture(scope="package")
def whole_web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with serve_web(tmp_path_factory.mktemp("web")) as web:
        yield web


@pytest.fixture
def web(whole_web: Web, runtime: WasmToolRuntime) -> Web:
    """Return the test web without pages and with reset rate limits."""
    whole_web.clear()
    runtime.pipeline.rates._store = MemoryWindows(time.monotonic)
    return whole_web


@pytest.fixture(scope="package")
def runtime(place: Path, whole_web: Web) -> Iterator[WasmToolRuntime]:
    place.mkdir()
    search = WebSearch(provider="searxng", url="https://search.example.com/")
    with WasmToolRuntime(WasmRuntimeConfig(workspace=place, network=whole_web.network(), web_search=search)) as runtime:
        yield runtime


@pytest.fixture
def root(place: Path, runtime: WasmToolRuntime) -> Path:
    """Return the runtime's workspace, emptied."""
    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return place


@pytest.fixture(scope="package")
def prepared(runtime: WasmToolRuntime) -> Callable[[str], PreparedTool]:
    known: dict[str, PreparedTool] = {}

    def prepare(name: str) -> PreparedTool:
        if name not in known:
            known[name] = runtime.prepare_installed(name)
        return known[name]

    return prepare


@pytest.fixture
def run(prepared: Callable[[str], PreparedTool], root: Path) -> Run:
    """Return a function that runs a tool by name and returns its result."""
    return lambda tool, **params: prepared(tool).execute(params).result


@pytest.fixture
def refused(prepared: Callable[[str], PreparedTool], root: Path) -> Callable[..., ToolError]:
    """Return a function that runs a tool that must fail, and returns its error."""

    def run(tool: str, **params: Any) -> ToolError:
        with pytest.raises(ToolError) as caught:
            prepared(tool).execute(params)
        return caught.value

    return run
