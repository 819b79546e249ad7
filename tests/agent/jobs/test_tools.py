"""The six tools: names, parameters, answers and errors of the specification, for the caller's own jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agent.jobs.conftest import SECONDS, Calling, Steered, changing_rows
from wasmrt import DenyApprover, JobContext, Jobs, JobTask, ToolError, ToolRegistry, add_jobs, tool
from wasmrt.agent.jobs import job_tools
from wasmrt.core.labels import Label

TASK = {"title": "Notes", "description": "Read the notes."}
NAMES = ["cancel_job", "create_job", "job_events", "job_prompt", "job_status", "list_jobs"]


def refusal(registry: ToolRegistry, name: str, params: dict[str, Any], user: str = "ann") -> ToolError:
    with pytest.raises(ToolError) as caught:
        registry.execute(name, params, user=user)
    return caught.value


def test_the_tools_exist_only_with_a_runner(registry: ToolRegistry) -> None:
    assert registry.group("jobs") == []
    assert "unknown" in refusal(registry, "create_job", TASK).code
    add_jobs(registry, Steered())
    assert registry.group("jobs") == NAMES


def test_a_job_is_created_prompted_and_observed(registry: ToolRegistry, jobs: Jobs) -> None:
    created = registry.execute("create_job", TASK, user="ann").result
    assert created | {"job_id": "", "message": ""} == {
        "job_id": "", "status": "in_progress", "title": "Notes", "message": "",
    }  # fmt: skip
    job_id = created["job_id"]
    listed = registry.execute("list_jobs", {"filter": "active"}, user="ann").result
    assert [each["job_id"] for each in listed["jobs"]] == [job_id]
    assert set(listed["jobs"][0]) == {"job_id", "title", "status", "created_at"}
    assert listed["summary"]["total"] == 1 and set(listed["summary"]) == {
        "total", "pending", "in_progress", "completed", "failed",
    }  # fmt: skip
    prompt = {"job_id": job_id[:8], "content": "finish", "done": True}
    queued = registry.execute("job_prompt", prompt, user="ann").result
    assert (queued["job_id"], queued["status"], queued["done"]) == (job_id, "queued", True)
    jobs.wait(job_id, user="ann", seconds=SECONDS)
    status = registry.execute("job_status", {"job_id": job_id}, user="ann").result
    assert (status["status"], status["output"]) == ("completed", "finish")
    assert set(status) > {"started_at", "completed_at", "created_at", "actual_cost", "fallback_deliverable"}
    events = registry.execute("job_events", {"job_id": job_id, "limit": 1}, user="ann").result
    assert (events["total_events"], events["returned"]) == (2, 1)
    assert events["events"][0]["event_type"] == "result"
    assert registry.execute("list_jobs", {"filter": "failed"}, user="ann").result["jobs"] == []


def test_waiting_returns_the_output_or_the_failure(registry: ToolRegistry) -> None:
    def work(task: JobTask, _: JobContext) -> str:
        if task.title == "bad":
            raise ValueError("no model")
        return task.description.upper()

    add_jobs(registry, Calling(work))
    answer = registry.execute("create_job", TASK | {"wait": True}).result
    assert (answer["status"], answer["output"]) == ("completed", "READ THE NOTES.")
    failure = refusal(registry, "create_job", TASK | {"title": "bad", "wait": True})
    assert failure.code == "job-failed" and "no model" in failure.message


def test_a_wait_ends_before_the_deadline_of_its_call_and_the_job_goes_on(registry: ToolRegistry, jobs: Jobs) -> None:
    (create,) = (each for each in job_tools(jobs) if each.name == "create_job")
    create.timeout_seconds = 1.2
    registry.replace(create, source=registry.source("create_job"))
    answer = registry.execute("create_job", TASK | {"wait": True}).result
    assert answer["status"] in ("pending", "in_progress")
    assert jobs.cancel(answer["job_id"]).state == "cancelled"


def test_cancelling_and_prompting_require_approval_and_work_once(registry: ToolRegistry, jobs: Jobs) -> None:
    job_id = jobs.create(JobTask(**TASK), user="ann").id
    with ToolRegistry(approver=DenyApprover()) as strict:
        for each in job_tools(jobs):
            strict.register(each, builtin=True)
        for name, params in (("cancel_job", {}), ("job_prompt", {"content": "x"})):
            assert refusal(strict, name, {"job_id": job_id} | params).code == "approval-denied"
        assert strict.execute("job_status", {"job_id": job_id}, user="ann").result["status"] != "cancelled"
    answer = registry.execute("cancel_job", {"job_id": job_id}, user="ann").result
    assert (answer["job_id"], answer["status"]) == (job_id, "cancelled")
    again = refusal(registry, "cancel_job", {"job_id": job_id})
    assert again.message == "Job already in state cancelled, cannot transition to cancelled"
    assert "accepts no prompt" in refusal(registry, "job_prompt", {"job_id": job_id, "content": "x"}).message


def test_a_job_of_another_user_is_not_found_by_any_tool(registry: ToolRegistry, jobs: Jobs) -> None:
    job_id = jobs.create(JobTask(**TASK), user="ann").id
    for name, more in (("job_status", {}), ("cancel_job", {}), ("job_events", {}), ("job_prompt", {"content": "x"})):
        for text in (job_id, job_id[:4]):
            error = refusal(registry, name, {"job_id": text} | more, user="eve")
            assert error.message == f"no job found matching prefix {text!r}"
    assert registry.execute("list_jobs", {}, user="eve").result["jobs"] == []
    assert jobs.find(job_id, user="ann").state in ("pending", "in_progress")


def test_a_prefix_must_be_long_enough_and_unambiguous_among_the_own_jobs(
    registry: ToolRegistry, jobs: Jobs, home: Path
) -> None:
    ids = [jobs.create(JobTask(**TASK), user=user).id for user in ("ann", "ann", "eve")]
    jobs.close()
    with changing_rows() as db:
        db.execute("DELETE FROM transitions")  # they refer to the IDs
        db.execute("DELETE FROM events")
        for job_id, digit in zip(ids, "123", strict=True):
            db.execute("UPDATE jobs SET id = ? WHERE id = ?", (f"abcd{digit}000-0000-4000-8000-000000000000", job_id))
    for text in ("abc", "ab%_", "", "job1"):
        message = refusal(registry, "job_status", {"job_id": text}).message
        assert message == "job ID prefix must be at least 4 hex characters"
    message = refusal(registry, "job_status", {"job_id": "abcd"}).message
    assert message == "ambiguous prefix 'abcd' matches 2 jobs, provide more characters"
    found = registry.execute("job_status", {"job_id": "ABCD1000-0"}, user="ann").result
    assert found["job_id"].startswith("abcd1")
    assert registry.execute("job_status", {"job_id": "abcd"}, user="eve").result["job_id"].startswith("abcd3")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"mode": "claude_code"}, "mode 'claude_code' is not available"),
        ({"mode": "sandbox"}, "mode 'sandbox' is not available"),
        ({"mode": "other"}, "mode"),
        ({"title": ""}, "title"),
        ({"title": "x" * 257}, "title"),
        ({"max_iterations": 501}, "max_iterations"),
        ({"project_dir": "/etc"}, "project directory must be under"),
        ({"project_dir": "../.."}, "project directory must be under"),
        (
            {"credentials": ["github_token"]},
            "credentials: these secrets cannot be given to a job: github_token. A job could",
        ),
        (
            {"credentials": {"github_token": "GITHUB_TOKEN"}},
            "credentials: these secrets cannot be given to a job: github_token.",
        ),
        ({"credentials": ["x"] * 21}, "credentials"),
        ({"mode": "acp", "agent_name": "goose"}, "mode 'acp:goose' is not available"),
        ({"agent_name": "goose"}, "agent_name requires mode acp, got none"),
        ({"mcp_servers": ["calc"]}, "no MCP server 'calc' has tools here; servers with tools: none"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_invalid_parameters_are_refused_before_a_job_exists(
    registry: ToolRegistry, jobs: Jobs, params: dict[str, Any], expected: str
) -> None:
    error = refusal(registry, "create_job", TASK | params)
    assert error.kind == "invalid-parameters" and expected in error.message
    assert jobs.all(user="ann") == []


def test_a_job_that_takes_ten_minutes_fails_but_keeps_a_result_of_the_last_moment(
    registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wasmrt.agent.jobs._tools.JOB_WAIT_SECONDS", 0.0)
    jobs = add_jobs(registry, runner := Steered())
    late = refusal(registry, "create_job", TASK | {"wait": True})
    assert (late.code, late.kind) == ("job-timeout", "timeout") and late.message.endswith("timed out (0 minutes)")
    assert [job.state for job in jobs.all(user="ann")] == ["failed"]

    def end_meanwhile(job_id: str, **settings: Any) -> Any:
        before = jobs.find(job_id, user="ann")
        jobs.prompt(job_id, "done", user="ann")
        assert Jobs.wait(jobs, job_id, user="ann", seconds=SECONDS).output == "done"
        return before

    monkeypatch.setattr(jobs, "wait", end_meanwhile)
    assert registry.execute("create_job", TASK | {"wait": True}, user="ann").result["output"] == "done"
    assert runner.started.is_set()


def test_an_agent_and_mcp_servers_are_chosen_by_name(registry: ToolRegistry) -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    for server in ("calc", "files"):
        registry.register(tool(name=f"{server}-add", effects=[])(add), group=f"mcp:{server}")
    work = Calling(lambda _, job: ",".join(name for name in job.tools.tool_names() if "-" in name))
    add_jobs(registry, modes={"acp:goose": work, "sandbox": work})
    task = TASK | {"mode": "acp", "agent_name": "goose", "wait": True}
    for servers, expected in ((None, "calc-add,files-add"), (["files"], "files-add"), ([], "")):
        params = task if servers is None else task | {"mcp_servers": servers}
        assert registry.execute("create_job", params).result["output"] == expected
    sandboxed = refusal(registry, "create_job", TASK | {"mode": "sandbox", "mcp_servers": ["calc"]})
    assert sandboxed.message == "mcp_servers: the command of a job has no tools; leave out mcp_servers"


def test_a_job_cannot_create_jobs(registry: ToolRegistry) -> None:
    def work(_: JobTask, job: JobContext) -> str:
        return str(job.tools.execute("create_job", TASK).result)

    jobs = add_jobs(registry, Calling(work), tools=lambda view: view.only(["*"]))
    error = refusal(registry, "create_job", TASK | {"wait": True})
    assert "a job cannot create jobs" in error.message
    assert len(jobs.all(user="ann")) == 1


def test_six_jobs_in_a_minute_are_too_many(registry: ToolRegistry) -> None:
    add_jobs(registry, Calling(lambda *_: "done"))
    for _ in range(5):
        registry.execute("create_job", TASK | {"wait": True})
    assert refusal(registry, "create_job", TASK, user="local").code == "rate-limited"


def test_text_of_a_tainted_conversation_taints_the_job_and_results_taint_the_reader(registry: ToolRegistry) -> None:
    seen: list[frozenset[Label]] = []

    def work(_: JobTask, job: JobContext) -> str:
        seen.append(registry.trace(job.trace_id, user=job.user).labels)
        return "done"

    add_jobs(registry, Calling(work))
    trace = registry.trace("talk")
    registry.execute("create_job", TASK | {"wait": True}, trace="calm")
    trace.add_user_message("Write a report about the page.")
    trace.add_content("a page", source="web")
    registry.execute("create_job", TASK | {"wait": True}, trace="talk")
    assert [Label.UNTRUSTED in labels for labels in seen] == [False, True]
    reader = registry.trace("reader")
    registry.execute("list_jobs", {}, trace="reader")
    assert Label.UNTRUSTED in reader.labels
