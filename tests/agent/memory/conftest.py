"""Fixtures: a separate store for each test, and a registry with the memory tools."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.postgres_server import Place, StorePlace
from wasmrt import ToolRegistry
from wasmrt.agent.builtin.memory import MemoryStore
from wasmrt.agent.builtin.memory_tools import memory_tools
from wasmrt.core.postgres import Connection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture
def place(folder: Path, store_place: StorePlace) -> Place:
    """The folder, or a database without a memory."""
    return store_place(folder)


@pytest.fixture
def store(place: Place) -> MemoryStore:
    return MemoryStore(place=place)


@contextmanager
def rows(place: Place, user: str) -> Iterator[Any]:
    """Open a transaction on a user's rows, past the store."""
    if isinstance(place, Path):
        with closing(sqlite3.connect(place / f"{user}.sqlite3")) as db, db:
            yield db
    else:
        with place.connect("wasmrt_memory") as shared, shared.transaction():
            shared.execute("SELECT set_config('wasmrt.owner', %s, true)", (user,))
            yield Connection(shared)


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
