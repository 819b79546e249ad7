"""Jobs and routines on the pages: listed for the operator, and ended only by a form of the session for their owner."""

from __future__ import annotations

import pytest

from tests.interop.pages.site import Person, Site
from wasmrt.agent.jobs import Job, JobState, JobStore, JobTask
from wasmrt.agent.jobs._store import Owned, Spent
from wasmrt.agent.routines import RoutineStore, read_definition

JOB = "abcd0000-0000-4000-8000-000000000000"


@pytest.fixture
def jobs(site: Site) -> JobStore:
    store = JobStore(site.data / "jobs.sqlite3")
    job = Job(JOB, "alice", JobTask("<b>Report</b>", "x"), "", JobState.PENDING, 0, None, None, 0, "", None, None, None)
    store.add(Owned(job, Spent(0, 0), "run"), narrowed=False, most=5, most_of_user=5)
    return store


@pytest.fixture
def routines(site: Site) -> RoutineStore:
    store = RoutineStore(site.data / "routines.sqlite3")
    given = {"name": "week/ly", "trigger_type": "once", "at": "2099-01-01T00:00:00Z", "prompt": "Summarize."}
    store.create("alice", read_definition(given))
    return store


def test_an_installation_without_jobs_has_an_empty_page(ann: Person) -> None:
    page = ann.get("work").text
    assert "There are no jobs." in page and "There are no routines." in page


def test_jobs_and_routines_are_listed_with_owner_state_and_next_time(
    jobs: JobStore, routines: RoutineStore, ann: Person, site: Site
) -> None:
    page = ann.get("work").text
    for part in ("&lt;b&gt;Report&lt;/b&gt;", "alice", "pending", "week/ly", "2099-01-01 00:00", "unverified"):
        assert part in page
    assert site.send("GET", f"{ann.root}work").status == 403 and "Report" not in site.send("GET", "/work").text


def test_a_job_is_cancelled_and_a_routine_paused_by_a_form_of_their_owner(
    jobs: JobStore, routines: RoutineStore, ann: Person
) -> None:
    wrong = ({"user": "bob"}, {"form_token": "x"}, {"answer": "delete"})
    for fields in wrong:
        assert ann.post("routines/week%2Fly", **{"answer": "pause"} | fields).status in (403, 409)
    for fields in wrong[:2]:
        assert ann.post(f"jobs/{JOB}", **fields).status in (403, 409)
    assert routines.get("alice", "week/ly").enabled and jobs.find("alice", JOB).state is JobState.PENDING
    for answer, enabled in (("pause", False), ("resume", True)):
        assert ann.post("routines/week%2Fly", answer=answer).status == 303
        assert routines.get("alice", "week/ly").enabled is enabled
    assert ann.post(f"jobs/{JOB}").status == 303
    assert jobs.find("alice", JOB).state is JobState.CANCELLED and jobs.leases.owners() == set()
    again = ann.post(f"jobs/{JOB}")
    assert again.status == 409 and "Job already in state cancelled" in again.text
