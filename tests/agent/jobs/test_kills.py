"""kill -9 at many points, and several processes: no job is lost, none is run twice at a time, every state is legal."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest

from tests.agent.approvals.processes import Killed, Step
from tests.agent.jobs.conftest import SECONDS
from tests.tiers import kills
from wasmrt import JobContext, Jobs, JobTask, LimitError, ToolRegistry
from wasmrt.agent.jobs import TRANSITIONS, Job, JobState

pytestmark = [pytest.mark.ci("kills"), pytest.mark.usefixtures("unmeasured")]
LEASE = 0.5


class Counting:
    """A runner that can continue. Each of its events names the run, and whether the run continues another one."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def run(self, task: JobTask, job: JobContext, kind: str = "run") -> str:
        name = os.urandom(8).hex()
        for _ in range(3):
            self._step()
            job.emit("status", {"run": name, "kind": kind})
        return task.description

    def resume(self, task: JobTask, job: JobContext) -> str:
        return self.run(task, job, "resume")


def check(jobs: Jobs, job: Job) -> None:
    """Check the record of an ended job: legal states, and runs one after the other."""
    record = jobs.transitions(job.id)
    assert all(each.after in TRANSITIONS[each.before] for each in record)
    assert [each.before for each in record] == ["pending", *(each.after for each in record[:-1])]
    # A job that became stuck four times fails, as specified; every other job is completed.
    completed = job.state is JobState.COMPLETED and job.output == job.task.description
    assert completed or (job.state is JobState.FAILED and job.repairs == 3), (job, record)
    events = [event.data for event in jobs.events(job.id, limit=1000)[1] if event.event_type == "status"]
    runs = [(name, list(data)) for name, data in groupby(events, key=itemgetter("run"))]
    assert len({name for name, _ in runs}) == len(runs), "two runs at the same time"
    assert [data[0]["kind"] for _, data in runs].count("run") <= 1, "started twice"
    assert len(runs) <= 1 + job.repairs
    assert not completed or len(runs[-1][1]) == 3


def test_killed_processes_lose_no_job_and_run_none_twice(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.agent.jobs._rows.MAX_JOBS_PER_USER", 2**31)
    killed, created = Killed(kills()), home / "created"

    def work(step: Step) -> None:
        jobs = Jobs(ToolRegistry(), Counting(step), lease_seconds=LEASE)
        for n in range(4):
            step()
            with suppress(LimitError):  # jobs of killed processes still count
                job = jobs.create(JobTask("t", f"d{n}"))
                with created.open("a") as file:
                    file.write(f"{job.id}\n")
            step()
            jobs.wait(jobs.all()[0].id, seconds=SECONDS)
        jobs.close()

    while killed.left > 0:
        killed.run(work, work, work, most=16)
    jobs = Jobs(ToolRegistry(), Counting(lambda: None), lease_seconds=LEASE)
    found = [jobs.wait(job.id, seconds=SECONDS) for job in jobs.all()]
    for job in found:
        check(jobs, job)
    assert {job.id for job in found} >= set(created.read_text().split()) != set()


def test_processes_together_stay_within_the_number_of_parallel_jobs(home: Path) -> None:
    def work(step: Step) -> None:
        jobs = Jobs(ToolRegistry(), Counting(lambda: None))
        for n in range(20):
            step()
            try:
                job = jobs.create(JobTask("t", f"{os.getpid()} {n}"))
            except LimitError as error:
                assert error.message == "Maximum parallel jobs (5) exceeded"
            else:
                assert sum(each.ended_ms is None for each in jobs.all()) <= 5
                jobs.wait(job.id, seconds=SECONDS) if n % 3 == 0 else None
        jobs.close()

    Killed(0).run(work, work, work, most=2)
