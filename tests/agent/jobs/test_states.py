"""The states of a job: whatever is done to a job, its recorded transitions are legal and lead to its state."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.agent.jobs.conftest import SECONDS, Calling
from tests.tiers import examples
from wasmrt import ConfigurationError, JobContext, JobResult, Jobs, JobTask, ToolError, ToolRegistry
from wasmrt.agent.jobs import TRANSITIONS, JobState

LEGAL = {
    "pending": {"in_progress", "failed", "cancelled"},
    "in_progress": {"completed", "failed", "stuck", "cancelled"},
    "completed": {"submitted", "failed"},
    "submitted": {"accepted", "failed"},
    "stuck": {"in_progress", "failed", "cancelled"},
}
SET_BY_RUNS = {"pending", "in_progress", "stuck"}


def test_the_transitions_are_those_of_the_specification() -> None:
    assert {before: set(after) for before, after in TRANSITIONS.items() if after} == LEGAL


def end(task: JobTask, job: JobContext) -> JobResult:
    return JobResult("done", success=task.description == "good")


@given(st.booleans(), st.lists(st.sampled_from(JobState), max_size=8))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_changes_leaves_a_legal_record(home: Path, good: bool, wanted: list[JobState]) -> None:
    with Jobs(ToolRegistry(), Calling(end)) as jobs:
        job = jobs.create(JobTask("t", "good" if good else "bad"))
        state = str(jobs.wait(job.id, seconds=SECONDS).state)
        assert state == ("completed" if good else "failed")
        for after in wanted:
            allowed = after in LEGAL.get(state, ()) or (state, after) == ("completed", "completed")
            try:
                jobs.move(job.id, after, reason="the test")
            except ConfigurationError:
                assert after in SET_BY_RUNS
            except ToolError as error:
                assert not allowed
                assert error.message == f"Job already in state {state}, cannot transition to {after}"
            else:
                assert allowed
                state = str(after)
            assert jobs.find(job.id).state == state
        record = [(str(each.before), str(each.after)) for each in jobs.transitions(job.id)]
        assert all(after in LEGAL[before] for before, after in record)
        assert [before for before, _ in record] == ["pending", *(after for _, after in record[:-1])]
        assert record[-1][1] == state
        assert all(each.reason and each.at_ms for each in jobs.transitions(job.id))
