"""A process that runs routines is killed at any point: no slot starts two runs, and no run stays without a result."""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
from pathlib import Path

import pytest

from tests.agent.routines.conftest import START, Clock, Model, add
from tests.tiers import kills
from wasmrt import ToolRegistry
from wasmrt.agent.approvals import DenyApprover
from wasmrt.agent.routines import RoutineEngine, RoutineStore

pytestmark = [pytest.mark.ci("kills"), pytest.mark.usefixtures("unmeasured")]
POINTS = kills()


def run_routines(path: Path, now: float) -> None:
    """Run due routines until the process is killed; the clock advances a minute with each tick."""
    clock = Clock(now)
    engine = RoutineEngine(RoutineStore(path, now=clock), ToolRegistry(approver=DenyApprover()), Model())
    while True:
        for run in engine.tick():
            engine.wait(run)
        clock.now += 60


def test_a_killed_process_runs_no_slot_twice_and_leaves_no_run_open(tmp_path: Path) -> None:
    path, clock, rng = tmp_path / "routines.sqlite3", Clock(), random.Random(7)
    store = RoutineStore(path, now=clock)
    add(store, trigger_type="cron", schedule="* * * * *", cooldown_secs=0)
    for point in range(POINTS):
        worker = multiprocessing.get_context("fork").Process(target=run_routines, args=(path, START + point * 86400))
        worker.start()
        worker.join(rng.uniform(0.05, 0.8))
        worker.kill()
        worker.join()
        clock.now = START + (point + 1) * 86400  # the lease has ended
        store.recover()
        assert not store.get("ann", "report").running
    with sqlite3.connect(path) as db:
        claims = db.execute("SELECT count(*) FROM claims").fetchone()[0]
        assert claims <= store.get("ann", "report").run_count
        assert db.execute("SELECT count(*) FROM runs WHERE ended_ms IS NULL").fetchone()[0] == 0
        due = db.execute("SELECT count(DISTINCT started_ms), count(*) FROM runs").fetchone()
    assert due[0] == due[1] > 0
