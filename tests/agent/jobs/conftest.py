"""Fixtures: jobs in a temporary data folder, and runners that tests control."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.postgres_server import StorePlace
from wasmrt import CallbackApprover, JobContext, JobResult, Jobs, JobTask, ToolContext, ToolRegistry, add_jobs, tool
from wasmrt.agent.jobs._rows import SCHEMA, VERSION, unusable_error
from wasmrt.core.database import Connection, open_store
from wasmrt.core.places import find_places
from wasmrt.core.postgres import Postgres
from wasmrt.runtime.audit import Receipt
from wasmrt.runtime.stores import store_place

SECONDS = 30.0
"""The longest wait of a test; a passing test does not wait."""


class Steered:
    """A runner that ends with the text of its first prompt; `started` is set when it runs."""

    def __init__(self) -> None:
        self.started = threading.Event()

    def run(self, task: JobTask, job: JobContext) -> JobResult | str:
        self.started.set()
        while not (prompts := job.inbox()):
            job.lifetime.wait(0.01)
        return prompts[0].content


class Calling:
    """A runner that calls a function with its task and context."""

    def __init__(self, function: Callable[[JobTask, JobContext], JobResult | str]) -> None:
        self.run = function


@tool(effects=["read-filesystem"])
def read_note(name: str) -> str:
    """Read a note."""
    return f"the note {name}"


@tool(effects=["external-write", "network"])
def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@tool(effects=["read-filesystem"])
def whoami(context: ToolContext) -> str:
    """Return the user of the call."""
    return context.user


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_place: StorePlace) -> Path:
    """The folder of an installation whose jobs are in a file or, by its settings, in PostgreSQL."""
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    if isinstance(place := store_place(tmp_path), Postgres):
        (tmp_path / "data").mkdir()
        config = tmp_path / "data" / "config.toml"
        config.touch(0o600)
        config.write_text(f'[database]\nurl = "{place.url}"\n')
    return tmp_path


@contextmanager
def changing_rows() -> Iterator[Connection]:
    """Change rows of the jobs as no method does."""
    store = open_store(store_place(find_places().jobs), "jobs", SCHEMA, VERSION, unusable=unusable_error)
    with store.writing() as db:
        yield db


@pytest.fixture
def receipts() -> list[Receipt]:
    return []


@pytest.fixture
def registry(home: Path, receipts: list[Receipt]) -> Iterator[ToolRegistry]:
    with ToolRegistry(approver=CallbackApprover(lambda _: True), receipts=receipts.append) as registry:
        for function in (read_note, send, whoami):
            registry.register(function)
        yield registry


@pytest.fixture
def runner() -> Steered:
    return Steered()


@pytest.fixture
def jobs(registry: ToolRegistry, runner: Steered) -> Jobs:
    return add_jobs(registry, runner)
