"""kill -9 at many points, and several processes: no job is lost, none is run twice at a time, every state is legal."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.agent.approvals.processes import Killed, Step, kills
from tests.agent.jobs.conftest import SECONDS
from wasmrt import JobContext, Jobs, JobTask, ToolRegistry
from wasmrt.agent.jobs import TRANSITIONS, JobState

pytestmark = [pytest.mark.ci("kills"), pytest.mark.usefixtures("unmeasured")]
LEASE = 0.4


class Exclusive:
    """A runner that can continue. It holds a lock while it runs, and records its runs in a file."""

    def __init__(self, folder: Path, step: Step) -> None:
        self._folder = folder
        self._step = step

    def run(self, task: JobTask, job: JobContext, kind: str = "run") -> str:
        file = os.open(self._folder / job.job_id, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a second run at the same time fails the test
        os.write(file, f"{kind}\n".encode())
        for n in range(3):
            self._step()
            job.emit("status", {"n": n})
        os.close(file)
        return task.description

    def resume(self, task: JobTask, job: JobContext) -> str:
        return self.run(task, job, "resume")


def test_killed_processes_lose_no_job_and_run_none_twice(home: Path, tmp_path: Path) -> None:
    killed, runs = Killed(kills(300)), tmp_path / "runs"
    runs.mkdir()

    def work(step: Step) -> None:
        registry = ToolRegistry()
        jobs = Jobs(registry, Exclusive(runs, step), lease_seconds=LEASE)
        for n in range(4):
            step()
            jobs.check()
            job = next((each for each in jobs.all() if each.ended_ms is None), None)
            job = job or jobs.create(JobTask("t", f"d{n}"))
            step()
            jobs.wait(job.id, seconds=SECONDS)
        jobs.close()

    while killed.left > 0:
        killed.run(work, work, most=12)
    jobs = Jobs(ToolRegistry(), Exclusive(runs, lambda: None), lease_seconds=LEASE)
    found = jobs.all()
    for job in found:
        ended = jobs.wait(job.id, seconds=SECONDS)
        record = jobs.transitions(job.id)
        assert all(each.after in TRANSITIONS[each.before] for each in record)
        assert [each.before for each in record] == ["pending", *(each.after for each in record[:-1])]
        # A job that was killed in four runs fails, as specified; every other job is completed.
        assert ended.state is JobState.COMPLETED or ended.repairs == 3, (ended, record)
        assert ended.output == ended.task.description or ended.repairs == 3
        if (runs / job.id).exists():
            kinds = Counter((runs / job.id).read_text().split())
            assert kinds["run"] <= 1 and kinds["resume"] <= ended.repairs
    assert len(found) > 50


def test_processes_together_stay_within_the_number_of_parallel_jobs(home: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()

    def work(step: Step) -> None:
        jobs = Jobs(ToolRegistry(), Exclusive(runs, lambda: None))
        for n in range(20):
            step()
            try:
                job = jobs.create(JobTask("t", f"{os.getpid()} {n}"))
            except Exception as error:
                assert "Maximum parallel jobs (5) exceeded" in str(error)
            else:
                assert sum(each.ended_ms is None for each in jobs.all()) <= 5
                jobs.wait(job.id, seconds=SECONDS) if n % 3 == 0 else None
        jobs.close()

    Killed(0).run(work, work, work, most=2)
    for file in runs.iterdir():
        assert file.read_text() == "run\n"
