"""A store with a clock that tests set, and a runner that answers with given texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.postgres_server import Place, StorePlace
from wasmrt import ApprovalStore, QueueApprover, ToolRegistry
from wasmrt.agent.jobs import JobContext, JobResult, JobTask
from wasmrt.agent.routines import RoutineEngine, RoutineStore, read_definition, routine_tools

START = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()


@dataclass
class Clock:
    """The time that a store sees."""

    now: float = START

    def __call__(self) -> float:
        return self.now


@dataclass
class Model:
    """A runner that records its tasks, and answers with a text or by a function."""

    reply: str | Callable[[JobTask, JobContext], str | JobResult] = "ROUTINE_OK"
    tasks: list[JobTask] = field(default_factory=list)

    def run(self, task: JobTask, job: JobContext) -> str | JobResult:
        self.tasks.append(task)
        return self.reply if isinstance(self.reply, str) else self.reply(task, job)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def place(tmp_path: Path, store_place: StorePlace) -> Place:
    return store_place(tmp_path / "routines.sqlite3")


@pytest.fixture
def store(place: Place, clock: Clock) -> RoutineStore:
    return RoutineStore(place, now=clock)


@pytest.fixture
def registry(tmp_path: Path, store: RoutineStore) -> ToolRegistry:
    registry = ToolRegistry(approver=QueueApprover(ApprovalStore(tmp_path / "approvals.sqlite3")))
    for tool in routine_tools(store, lambda: ["echo", "read_file"]):
        registry.register(tool, builtin=True)
    return registry


@pytest.fixture
def engine(store: RoutineStore, registry: ToolRegistry, model: Model) -> Iterator[RoutineEngine]:
    engine = RoutineEngine(store, registry, model)
    yield engine
    engine.close()


def add(store: RoutineStore, name: str = "report", user: str = "ann", **params: Any) -> Any:
    """Store a routine of a user; by default one that runs on demand."""
    params = {"name": name, "trigger_type": "manual", "prompt": "Summarize the week."} | params
    return store.create(user, read_definition(params), labels=())
