"""Runs of jobs: the runner's context, the calls of its tools, limits, cancellation and ended processes."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from examples.jobs import mail_note
from tests.agent.jobs.conftest import SECONDS, Calling, Steered, changing_rows
from tests.postgres_server import on_a_file
from wasmrt import (
    ConfigurationError,
    FunctionRunner,
    JobContext,
    JobResult,
    Jobs,
    JobTask,
    LimitError,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolView,
    tool,
)
from wasmrt.agent.builtin.host_tool import HostTool
from wasmrt.agent.jobs import JobState
from wasmrt.agent.jobs._run import Run
from wasmrt.core.errors import CancelledError
from wasmrt.runtime.audit import Receipt

TASK = JobTask("Notes", "Read the notes.")


def run(registry: ToolRegistry, function: Any, **settings: Any) -> tuple[Jobs, str]:
    """Run one job of ann to its end, and return its ID."""
    jobs = Jobs(registry, Calling(function), **settings)
    job = jobs.create(TASK._replace(max_iterations=3), user="ann")
    jobs.wait(job.id, user="ann", seconds=SECONDS)
    return jobs, job.id


def test_calls_of_a_job_are_calls_of_its_user_and_name_the_job_as_parent(
    registry: ToolRegistry, receipts: list[Receipt]
) -> None:
    jobs, job_id = run(registry, lambda _, job: job.tools.execute("whoami", user="bob", trace="other").result)
    assert jobs.find(job_id, user="ann").output == "ann"
    assert [(each.user, each.parent_id, each.chain) for each in receipts] == [("ann", job_id, ("create_job", "whoami"))]
    assert receipts[0].trace_id == f"job-{job_id}"


def test_a_job_has_the_tools_of_a_sub_agent_and_more_only_if_the_program_allows_it(registry: ToolRegistry) -> None:
    def work(_: JobTask, job: JobContext) -> str:
        return job.tools.execute("send", {"to": "bob"}).result

    jobs, job_id = run(registry, work)
    assert jobs.find(job_id, user="ann").state is JobState.FAILED
    jobs, job_id = run(registry, work, tools=lambda view: view.only(["send"]))
    assert jobs.find(job_id, user="ann").output == "sent to bob"


def test_a_job_never_has_more_tools_than_its_creator(registry: ToolRegistry) -> None:
    names: list[list[str]] = []

    def work(_: JobTask, job: JobContext) -> str:
        names.append(job.tools.tool_names())
        return ""

    jobs = Jobs(registry, Calling(work), tools=lambda view: view.only(["*"]))
    for view in (registry, registry.only(["whoami"])):
        jobs.wait(jobs.create(TASK, view=view).id, seconds=SECONDS)
    assert names == [["read_note", "send", "whoami"], ["whoami"]]
    with pytest.raises(ConfigurationError, match="another registry"):
        jobs.create(TASK, view=ToolRegistry())


def test_a_job_sees_no_tool_that_only_the_agent_itself_may_call(registry: ToolRegistry) -> None:
    registry.register(HostTool("change_tools", "Change.", {}, lambda *_: None, in_programs=False), builtin=True)

    def work(_: JobTask, job: JobContext) -> str:
        with pytest.raises(ToolError, match="programs and jobs cannot call this tool"):
            job.tools.execute("change_tools")
        assert job.tools.explain("change_tools").stopped_at == "program"
        return ",".join(job.tools.tool_names())

    jobs, job_id = run(registry, work, tools=lambda view: view.only(["*"]))
    assert jobs.find(job_id, user="ann").output == "read_note,send,whoami"
    assert "change_tools" in registry.tool_names()


def test_calls_and_events_are_recorded_without_secrets_and_in_bounds(registry: ToolRegistry) -> None:
    secret = "ghp_" + "k3Jd8sQmZ1xPv7Lr" + "Tn0WbY5cHfG2uA9eRoXi"

    def work(_: JobTask, job: JobContext) -> JobResult:
        job.tools.execute("read_note", {"name": "a"})
        job.emit("message", {"role": "assistant", "content": secret})
        job.emit("message", {"role": "assistant", "content": "long " * 10_000})
        with pytest.raises(ConfigurationError, match="event type"):
            job.emit("unknown", {})
        return JobResult(f"saw {secret}", fallback={"part": secret})

    jobs, job_id = run(registry, work)
    total, events = jobs.events(job_id, user="ann")
    assert [each.event_type for each in events] == ["tool_use", "tool_result", "message", "message", "result"]
    assert total == 5
    assert events[0].data == {"tool_name": "read_note", "input": {"name": "a"}}
    assert events[1].data == {"tool_name": "read_note", "output": "the note a"}
    assert events[3].data["truncated"] is True and len(str(events[3].data)) < 17_000
    job = jobs.find(job_id, user="ann")
    assert job.state is JobState.COMPLETED
    assert secret not in f"{events}{job}"


def test_a_job_fails_with_the_error_of_its_runner(registry: ToolRegistry) -> None:
    def work(*_: object) -> str:
        raise ValueError("no model")

    jobs, job_id = run(registry, work)
    assert jobs.find(job_id, user="ann").output == "ValueError: no model"
    jobs, job_id = run(registry, lambda *_: 5)
    assert "expected the runner to return" in jobs.find(job_id, user="ann").output


def test_iterations_and_tokens_are_limited(registry: ToolRegistry) -> None:
    def iterate(_: JobTask, job: JobContext) -> str:
        while job.remaining().iterations >= 0:
            job.begin_iteration()
        return ""

    def spend(_: JobTask, job: JobContext) -> str:
        job.add_tokens(90)
        assert job.remaining().tokens == 10
        job.add_tokens(20)
        return ""

    jobs, job_id = run(registry, iterate)
    assert jobs.find(job_id, user="ann").output == "Maximum iterations exceeded"
    jobs, job_id = run(registry, spend, max_tokens=100)
    assert jobs.find(job_id, user="ann").output == "Token budget exceeded: used 110 of 100 allowed tokens"


def test_a_run_that_is_too_long_fails(registry: ToolRegistry) -> None:
    def work(_: JobTask, job: JobContext) -> str:
        job.lifetime.wait(SECONDS)
        return ""

    jobs, job_id = run(registry, work, seconds=0.05)
    assert jobs.find(job_id, user="ann").output.startswith("timed out after")


def test_five_jobs_run_at_a_time_and_a_user_can_be_limited_further(registry: ToolRegistry) -> None:
    jobs = Jobs(registry, Steered(), max_parallel_per_user=2)
    ids = [jobs.create(TASK, user=user).id for user in ("ann", "ann", "bob", "bob", "eve")]
    for user, bound in (("dan", 5), ("ann", 5)):
        with pytest.raises(LimitError, match=rf"Maximum parallel jobs \({bound}\) exceeded"):
            jobs.create(TASK, user=user)
    jobs.cancel(ids[2], user="bob")
    with pytest.raises(LimitError, match=r"Maximum parallel jobs \(2\) exceeded"):
        jobs.create(TASK, user="ann")
    assert jobs.create(TASK, user="dan")
    jobs.close()


def test_a_cancelled_job_makes_no_further_call(registry: ToolRegistry, receipts: list[Receipt]) -> None:
    errors: list[BaseException] = []
    begun = threading.Event()

    def work(_: JobTask, job: JobContext) -> str:
        begun.set()
        job.lifetime.cancelled.wait(SECONDS)
        for use in (lambda: job.tools.execute("whoami"), job.inbox, job.begin_iteration):
            try:
                use()
            except ToolError as error:
                errors.append(error)
        return "late"

    jobs = Jobs(registry, Calling(work))
    job = jobs.create(TASK)
    assert begun.wait(SECONDS)
    other = Jobs(registry)  # as another process
    job = other.cancel(job.id)
    assert all(run.ended.wait(SECONDS) for run in jobs._list_runs(job.id))
    assert all(isinstance(error, CancelledError) for error in errors) and len(errors) == 3
    assert other.find(job.id).state is JobState.CANCELLED
    assert [each.outcome for each in receipts] == ["cancelled"]


def test_a_coroutine_is_cancelled_with_its_job(registry: ToolRegistry) -> None:
    class Sleeping:
        def __init__(self) -> None:
            self.ended: list[str] = []

        async def run(self, task: JobTask, job: JobContext) -> str:
            job.emit("status", {})
            try:
                await asyncio.sleep(SECONDS)
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
            return ""

    runner = Sleeping()
    jobs = Jobs(registry, runner)
    job = jobs.create(TASK)
    while not jobs.events(job.id)[0]:
        pass
    (run,) = jobs._list_runs(job.id)
    jobs.cancel(job.id)
    assert run.ended.wait(SECONDS)
    assert runner.ended == ["cancelled"]


class Resuming(Steered):
    """A steered runner that can be continued."""

    def resume(self, task: JobTask, job: JobContext) -> str:
        return f"continued after {[each.event_type for each in job.events()]}"


@pytest.mark.parametrize(("runner", "expected"), [(Resuming(), JobState.COMPLETED), (Steered(), JobState.FAILED)])
def test_a_job_of_an_ended_program_is_continued_only_by_a_runner_that_can(
    registry: ToolRegistry, runner: Steered, expected: JobState
) -> None:
    first = Jobs(registry, runner)
    job = first.create(TASK)
    assert runner.started.wait(SECONDS)
    first.close()
    second = Jobs(registry, Resuming())
    ended = second.wait(job.id, seconds=SECONDS)
    assert ended.state is expected
    states = [str(each.after) for each in second.transitions(job.id)]
    if expected is JobState.COMPLETED:
        assert ended.output == "continued after []" and ended.repairs == 1
        assert states == ["in_progress", "stuck", "in_progress", "completed"]
    else:
        assert states == ["in_progress", "failed"]


def lose_lease(job_id: str) -> None:
    """Let the lease of a job end, as if its process had been paused."""
    with changing_rows() as db:
        db.execute("UPDATE leases SET ends_ms = 1 WHERE key = ?", (job_id,))


def test_a_paused_run_that_another_process_continues_can_do_nothing_more(
    registry: ToolRegistry, home: Path, receipts: list[Receipt]
) -> None:
    first, second = Jobs(registry, runner := Resuming()), Jobs(registry, Resuming())
    job = first.create(TASK)
    assert runner.started.wait(SECONDS)
    (paused,) = first._list_runs(job.id)
    lose_lease(job.id)
    second.check()
    assert second.wait(job.id, seconds=SECONDS).state is JobState.COMPLETED
    assert paused.ended.wait(SECONDS)
    with pytest.raises(ToolError):
        paused.tools.execute("whoami")
    assert all(each.outcome != "ok" for each in receipts)
    assert second.find(job.id).output.startswith("continued")


def test_a_run_ends_if_the_same_program_continues_its_job(registry: ToolRegistry, home: Path) -> None:
    class Waiting(Resuming):
        def run(self, task: JobTask, job: JobContext) -> str:
            self.started.set()
            job.lifetime.cancelled.wait(2 * SECONDS)
            return "late"

    jobs = Jobs(registry, runner := Waiting())
    job = jobs.create(TASK)
    assert runner.started.wait(SECONDS)
    (paused,) = jobs._list_runs(job.id)
    lose_lease(job.id)
    jobs.check()
    assert paused.lifetime.cancelled.wait(SECONDS) and paused.ended.wait(SECONDS)
    assert jobs.wait(job.id, seconds=SECONDS).output == "continued after []"


def test_a_job_that_did_not_start_before_its_program_ended_starts_in_the_next_one(
    registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Run, "work", lambda *_: None)
        first = Jobs(registry, runner := Resuming())
        job = first.create(TASK)
        (late,) = first._list_runs(job.id)
        first.close()
    late.work(runner)
    ended = Jobs(registry, Calling(lambda *_: "done")).wait(job.id, seconds=SECONDS)
    assert (ended.state, ended.output, ended.repairs) == (JobState.COMPLETED, "done", 0)


def test_a_continued_job_counts_as_having_read_private_and_untrusted_text(registry: ToolRegistry) -> None:
    class Labelled(Resuming):
        def resume(self, task: JobTask, job: JobContext) -> str:
            return ",".join(sorted(registry.trace(job.trace_id, user=job.user).labels))

    first = Jobs(registry, runner := Labelled())
    job = first.create(TASK)
    assert runner.started.wait(SECONDS)
    first.close()
    assert Jobs(registry, Labelled()).wait(job.id, seconds=SECONDS).output == "private,untrusted"


def test_a_job_with_narrowed_tools_is_not_continued_with_more(registry: ToolRegistry, home: Path) -> None:
    first, second = Jobs(registry, runner := Resuming()), Jobs(registry, Resuming())
    job = first.create(TASK, view=registry.only(["whoami"]))
    assert runner.started.wait(SECONDS)
    lose_lease(job.id)
    second.check()
    ended = second.find(job.id)
    assert ended.state is JobState.FAILED and "restrictions" in ended.output


def test_a_function_for_tools_that_fails_ends_its_job_and_no_other(registry: ToolRegistry, home: Path) -> None:
    def fail_once(view: ToolView) -> ToolView:
        if fails.pop():
            raise ValueError("no such role")
        return view

    first, fails = Jobs(registry, runner := Resuming()), [False, True]
    ids = [first.create(TASK).id for _ in range(2)]
    assert runner.started.wait(SECONDS)
    while any(first.find(job_id).state is JobState.PENDING for job_id in ids):
        pass
    first.close()
    second = Jobs(registry, Resuming(), tools=fail_once)
    second.check()
    found = [second.wait(job_id, seconds=SECONDS) for job_id in ids]
    assert [job.output for job in found] == [
        "its tools cannot be determined: ValueError: no such role",
        "continued after []",
    ]
    with pytest.raises(IndexError):
        second.create(TASK)
    assert len(second.all()) == 2


@on_a_file
def test_the_file_of_jobs_is_private(jobs: Jobs, home: Path) -> None:
    jobs.create(TASK)
    file = home / "data" / "jobs.sqlite3"
    assert file.stat().st_mode & 0o077 == 0
    file.chmod(0o644)
    with pytest.raises(ToolError, match="the jobs cannot be used"):
        jobs.all()
    file.chmod(0o600)


def test_an_agent_function_is_prompted_again_with_the_messages_that_arrived(registry: ToolRegistry) -> None:
    def build(tools: ToolView) -> Any:
        async def agent(prompt: str) -> str:
            if prompt == "Read the notes.":
                jobs.prompt(jobs.all()[0].id, "and the rest")
            return f"{prompt}: {tools.execute('read_note', {'name': 'a'}).result}"

        return agent

    jobs = Jobs(registry, FunctionRunner(build))
    job = jobs.create(TASK)
    assert jobs.wait(job.id, seconds=SECONDS).output == "and the rest: the note a"
    said = [each.data["content"] for each in jobs.events(job.id)[1] if each.event_type == "message"]
    assert said == ["Read the notes.: the note a", "and the rest", "and the rest: the note a"]


def test_the_example_mails_a_note_after_an_approval(tmp_path: Path) -> None:
    asked: list[str] = []
    found = mail_note(tmp_path / "jobs.sqlite3", "ann@example.com", asked)
    assert found["output"] == "sent 24 characters to ann@example.com"
    assert asked == ["job_prompt", "send"]
    assert found["events"] == ["message", "tool_use", "tool_result", "tool_use", "tool_result", "message", "result"]
    assert len((Path(__file__).parents[3] / "examples" / "jobs.py").read_text().splitlines()) <= 60


def test_tasks_and_messages_are_stored_without_secrets(registry: ToolRegistry, home: Path) -> None:
    secret = "ghp_" + "k3Jd8sQmZ1xPv7Lr" + "Tn0WbY5cHfG2uA9eRoXi"
    jobs = Jobs(registry, runner := Steered())
    job = jobs.create(JobTask(secret, f"use {secret}", f"or {secret}"))
    assert runner.started.wait(SECONDS)
    jobs.prompt(job.id, f"it is {secret}")
    ended = jobs.wait(job.id, seconds=SECONDS)
    assert ended.output.startswith("it is ") and secret not in str(ended)
    assert secret.encode() not in b"".join(file.read_bytes() for file in (home / "data").iterdir() if file.is_file())


def test_a_cancellation_ends_all_calls_that_run_at_the_same_time(registry: ToolRegistry) -> None:
    begun = threading.Barrier(3, timeout=SECONDS)
    ended: list[str] = []

    @tool(effects=[])
    def wait_long(context: ToolContext) -> str:
        """Wait for the end of the call."""
        begun.wait()
        assert context.lifetime is not None
        ended.append("cancelled" if context.lifetime.cancelled.wait(SECONDS) else "late")
        return ""

    registry.register(wait_long)

    def work(_: JobTask, job: JobContext) -> str:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: job.tools.execute("wait_long"), range(2)))
        return ""

    jobs = Jobs(registry, Calling(work))
    job = jobs.create(TASK)
    begun.wait()
    (run,) = jobs._list_runs(job.id)
    run.lifetime.cancel()
    assert run.ended.wait(SECONDS)
    while len(ended) < 2:
        pass
    assert ended == ["cancelled", "cancelled"]
