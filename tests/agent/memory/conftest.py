"""Fixtures: a separate store for each test, and a registry with the memory tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wasmrt import ToolRegistry
from wasmrt.agent.builtin.memory import MemoryStore
from wasmrt.agent.builtin.memory_tools import memory_tools
from wasmrt.runtime.memory import MemorySettings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture
def store(folder: Path) -> MemoryStore:
    return MemoryStore(MemorySettings(path=folder))


def registry_over(store: MemoryStore, **settings: Any) -> ToolRegistry:
    registry = ToolRegistry(**settings)
    for tool in memory_tools(store):
        registry.register(tool, builtin=True)
    return registry


@pytest.fixture
def registry(store: MemoryStore) -> Iterator[ToolRegistry]:
    with registry_over(store) as registry:
        yield registry


@pytest.fixture
def call(registry: ToolRegistry) -> Callable[..., Any]:
    """Return a function that calls a tool by name and returns its result."""

    def run(name: str, user: str = "local", trace: str = "", **params: Any) -> Any:
        return registry.execute(name, params, user=user, trace=trace).result

    return run
