"""Hosts that share jobs and routines in a database."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.agent.jobs.conftest import SECONDS, Calling, Steered
from tests.agent.routines.conftest import add
from tests.postgres_server import StorePlace, on_a_file
from wasmrt import Jobs, JobTask, ToolError, ToolRegistry
from wasmrt.agent.jobs import JobState
from wasmrt.agent.routines import RoutineStore, RunState, Trigger, TriggerType
from wasmrt.core.postgres import Postgres


@on_a_file
def test_a_host_whose_clock_is_ahead_takes_no_job_or_run_of_another_host(
    postgres: Postgres, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, routines = Jobs(ToolRegistry(), runner := Steered(), path=postgres), RoutineStore(postgres)
    job = first.create(JobTask("t", "d"))
    assert runner.started.wait(SECONDS)
    run = routines.claim(add(routines), Trigger(TriggerType.MANUAL, "one"))
    assert run is not None
    now, now_ns = time.time, time.time_ns
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda: now() + 3600)
        ahead.setattr(time, "time_ns", lambda: now_ns() + 3600 * 10**9)
        second = Jobs(ToolRegistry(), Steered(), path=postgres)
        second.check()
        RoutineStore(postgres).recover()
        assert second.find(job.id).state is JobState.IN_PROGRESS
        assert routines.get("ann", "report").running
        second.close()
    first.prompt(job.id, "done")
    assert first.wait(job.id, seconds=SECONDS).output == "done"
    first.close()


def test_a_host_whose_clock_is_ahead_starts_no_routine_early(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, now, now_ns = RoutineStore(postgres), time.time, time.time_ns
    yearly = {"trigger_type": "cron", "schedule": "0 0 1 1 *"}
    first = add(store, **yearly).next_ms
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda: now() + 400 * 86400)
        ahead.setattr(time, "time_ns", lambda: now_ns() + 400 * 86400 * 10**9)
        assert RoutineStore(postgres).due() == []
        assert add(store, "second", **yearly).next_ms == first


@on_a_file
def test_a_job_is_watched_and_cancelled_from_another_host(postgres: Postgres, home: Path) -> None:
    first, second = (
        Jobs(ToolRegistry(), runner := Steered(), path=postgres),
        Jobs(ToolRegistry(), Steered(), path=postgres),
    )
    job = first.create(JobTask("t", "d"), user="ann")
    assert runner.started.wait(SECONDS)
    with pytest.raises(ToolError, match="no job found"):
        second.cancel(job.id, user="eve", reason="no")
    second.cancel(job.id, user="ann", reason="enough")
    (run,) = first._list_runs(job.id) or (None,)
    assert run is None or run.ended.wait(SECONDS)
    assert second.find(job.id, user="ann").state is JobState.CANCELLED
    for each in (first, second):
        each.close()


def test_text_that_a_database_cannot_store_is_replaced(home: Path) -> None:
    with Jobs(ToolRegistry(), Calling(lambda task, _: f"{task.description}\0\ud800")) as jobs:
        job = jobs.create(JobTask("a\0", "b\ud800"))
        ended = jobs.wait(job.id, seconds=SECONDS)
    assert (ended.task.title, ended.task.description, ended.output) == ("a\ufffd", "b?", "b?\ufffd?")


def test_a_routines_texts_are_stored_in_either_database(tmp_path: Path, store_place: StorePlace) -> None:
    store = RoutineStore(store_place(tmp_path / "routines.sqlite3"))
    run = store.claim(add(store, prompt="50% of user?"), Trigger(TriggerType.EVENT, "one", "mail\0"))
    assert run is not None
    store.finish(run, RunState.FAILED, "x\0\ud800")
    (found,) = store.history("ann", "report", 1)
    assert (found.detail, found.summary) == ("mail\ufffd", "x\ufffd?")
    assert store.get("ann", "report").definition.prompt == "50% of user?"
