"""Processes of two hosts that run routines are killed at any point: no slot is lost or starts two runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.agent.approvals.processes import Killed, Step, Work
from tests.agent.routines.conftest import START, Clock, Model, add
from tests.postgres_server import Place, StorePlace
from tests.tiers import kills
from wasmrt import ToolRegistry
from wasmrt.agent.approvals import DenyApprover
from wasmrt.agent.jobs import JobContext, JobTask
from wasmrt.agent.routines import RoutineEngine, RoutineStore, Run, RunState

pytestmark = [pytest.mark.ci("kills"), pytest.mark.usefixtures("unmeasured")]
LEASE = 0.5
BATCH = 5


@pytest.fixture(autouse=True)
def all_runs_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.agent.routines._store.MAX_STORED_RUNS", 2**31)


def ran_in(log: Path, step: Step) -> Model:
    """Return a runner that writes each of its runs to a file."""

    def work(task: JobTask, job: JobContext) -> str:
        step()
        with log.open("a") as file:
            file.write(f"{job.job_id}\n")
        step()
        return "ROUTINE_OK"

    return Model(work)


def check(runs: list[Run], log: Path, *, killed: int) -> None:
    """Check that every run has ended, that none ran twice, and that only runs of killed processes failed."""
    ids = {run.id for run in runs}
    ran = Counter(log.read_text().split())
    assert set(ran.values()) == {1} and ran.keys() <= ids
    assert {run.state for run in runs} <= {RunState.OK, RunState.FAILED}
    failed = [run for run in runs if run.state is RunState.FAILED]
    assert {run.summary for run in failed} <= {"the process that ran it has ended"}
    assert len(failed) <= killed and ids - ran.keys() <= {run.id for run in failed}


def fires_events(place: Place, log: Path, first: int) -> Work:
    """Starts a run for each of some events, which every process of a batch receives."""

    def work(step: Step) -> None:
        store = RoutineStore(place, lease_seconds=LEASE)
        engine = RoutineEngine(store, ToolRegistry(approver=DenyApprover()), ran_in(log, step))
        for n in range(first, first + BATCH):
            step()
            while n >= store.get("ann", "report").run_count:  # the events are in order, and a run may be under way
                for run in engine.event("mail", "x", user="ann", event_id=str(n)):
                    step()
                    engine.wait(run)
        engine.close()

    return work


def test_killed_processes_lose_no_event_and_run_none_twice(tmp_path: Path, store_place: StorePlace) -> None:
    place, log, killed = store_place(tmp_path / "routines.sqlite3"), tmp_path / "ran", Killed(kills())
    store, events = RoutineStore(place, lease_seconds=LEASE), 0
    add(store, trigger_type="event", event_pattern="x", cooldown_secs=0)
    while killed.left > 0:
        works = [fires_events(place, log, events) for _ in range(2)]
        killed.run(*works, most=2 * BATCH)
        events += BATCH
    while store.get("ann", "report").running:
        store.recover()  # as soon as the leases of the killed processes have ended
    assert store.get("ann", "report").run_count == events
    runs = store.history("ann", "report", events + 1)
    assert len(runs) == events
    check(runs, log, killed=kills() - killed.left)


def test_a_killed_scheduler_starts_no_scheduled_time_twice(tmp_path: Path, store_place: StorePlace) -> None:
    place, log, minute = store_place(tmp_path / "routines.sqlite3"), tmp_path / "ran", tmp_path / "minute"
    minute.write_text("0")

    def work(step: Step) -> None:
        clock = Clock(START + 60 * json.loads(minute.read_text()))
        engine = RoutineEngine(RoutineStore(place, now=clock), ToolRegistry(approver=DenyApprover()), ran_in(log, step))
        while clock.now < START + 60 * last:
            step()
            for run in engine.tick():
                engine.wait(run)
            clock.now += 60
            (fresh := tmp_path / "fresh").write_text(str(round((clock.now - START) / 60)))
            fresh.replace(minute)
        engine.close()

    add(RoutineStore(place, now=Clock()), trigger_type="cron", schedule="* * * * *", cooldown_secs=0)
    killed, last = Killed(kills()), 0
    while killed.left > 0:
        last += BATCH
        killed.run(work, most=3 * BATCH)
    store = RoutineStore(place, now=Clock(START + 60 * last))
    store.recover()
    runs = store.history("ann", "report", last)
    check(runs, log, killed=kills() - killed.left)
    assert len({run.started_ms for run in runs}) == len(runs) == last - 1  # the first time is a minute after the start
