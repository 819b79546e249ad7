"""Jobs of the mode `sandbox`: a confined command gets the task, and its output becomes events and the result."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.agent.jobs.conftest import SECONDS, Calling
from wasmrt import ShellSettings, ToolError, ToolRegistry, WasmToolRuntime, add_jobs, load_registry
from wasmrt.agent.builtin.shell import Backend, choose_backend
from wasmrt.agent.jobs import CommandRunner, JobState

pytestmark = pytest.mark.skipif(
    choose_backend(ShellSettings())[0] is not Backend.CONFINED, reason="this machine cannot confine commands"
)
TASK = {"title": "Build", "description": "Build it.", "mode": "sandbox"}


def with_command(registry: ToolRegistry, script: str) -> ToolRegistry:
    add_jobs(registry, modes={"sandbox": CommandRunner(["/bin/sh", "-c", script], ShellSettings())})
    return registry


def test_the_command_gets_the_task_and_its_output_becomes_events_and_the_result(registry: ToolRegistry) -> None:
    event = json.dumps({"event_type": "message", "data": {"role": "assistant", "content": "hello"}})
    registry = with_command(registry, f"cat > task.json; echo '{event}'; echo built; echo '{{not json'")
    answer = registry.execute("create_job", TASK, user="ann").result
    assert (answer["status"], answer["output"]) == ("completed", "built\n{not json")
    project = Path(answer["project_dir"])
    task = json.loads((project / "task.json").read_text())
    assert (task["title"], task["description"]) == ("Build", "Build it.")
    events = registry.execute("job_events", {"job_id": answer["job_id"]}, user="ann").result["events"]
    assert [each["event_type"] for each in events] == ["message", "result"]
    again = registry.execute("create_job", TASK | {"project_dir": str(project)}, user="ann").result
    assert again["project_dir"] == str(project)
    with pytest.raises(ToolError, match="project directory must be under"):
        registry.execute("create_job", TASK | {"project_dir": str(project)}, user="eve")


def test_the_command_reaches_only_its_project(registry: ToolRegistry, home: Path) -> None:
    (home / "secret").write_text("private")
    registry = with_command(registry, f"cat {home}/secret; cat {home}/data/jobs.sqlite3; echo x > {home}/new")
    with pytest.raises(ToolError, match="denied"):
        registry.execute("create_job", TASK)
    assert not (home / "new").exists()


def test_a_link_out_of_the_projects_is_refused(registry: ToolRegistry, home: Path) -> None:
    registry = with_command(registry, f"ln -s {home} out")
    project = registry.execute("create_job", TASK).result["project_dir"]
    with pytest.raises(ToolError, match="project directory must be under"):
        registry.execute("create_job", TASK | {"project_dir": f"{project}/out"})


def test_cancelling_ends_the_command_within_a_second(registry: ToolRegistry) -> None:
    event, sleep = json.dumps({"event_type": "status", "data": {}}), f"sleep 30.{os.getpid()}"
    registry = with_command(registry, f"echo '{event}'; {sleep} & wait")
    started = registry.execute("create_job", TASK | {"wait": False}).result
    assert started["status"] == "started"
    by_id = {"job_id": started["job_id"]}
    deadline = time.monotonic() + SECONDS
    while not registry.execute("job_events", by_id).result["events"] or not runs(sleep):
        assert time.monotonic() < deadline
    begun = time.monotonic()
    registry.execute("cancel_job", by_id)
    while runs(sleep):
        assert time.monotonic() < begun + SECONDS
    assert registry.execute("job_status", by_id).result["status"] == "cancelled"


def runs(command: str) -> bool:
    """Return whether a process with this command line runs."""
    wanted, found = "\0".join([*command.split(), ""]).encode(), False
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found = found or entry.read_bytes() == wanted
    return found


def test_a_failing_command_fails_the_job_with_its_code(registry: ToolRegistry) -> None:
    registry = with_command(registry, "echo broken >&2; exit 3")
    with pytest.raises(ToolError, match="exited with code 3: broken"):
        registry.execute("create_job", TASK)


def test_a_message_reaches_the_command_by_its_inbox(registry: ToolRegistry) -> None:
    read = 'inbox=$(grep -o "/tmp[^\\"]*jsonl"); while ! grep -q go "$inbox"; do sleep 0.05; done; cat "$inbox"'
    registry = with_command(registry, f'{read}; echo x > "$inbox"')
    job_id = registry.execute("create_job", TASK | {"wait": False}).result["job_id"]
    registry.execute("job_prompt", {"job_id": job_id, "content": "go", "done": True})
    deadline = time.monotonic() + SECONDS
    while (status := registry.execute("job_status", {"job_id": job_id}).result)["completed_at"] is None:
        assert time.monotonic() < deadline
    assert status["status"] == JobState.FAILED and "xited" in status["output"]  # the inbox cannot be written


def test_the_operators_command_offers_the_tools(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.agent.loading.TOOLS", ())  # avoid compiling each component
    (home / "data").mkdir(exist_ok=True)
    (home / "data" / "config.toml").write_text('[jobs]\ncommand = ["/bin/sh", "-c", "cat >/dev/null; echo built"]\n')
    with WasmToolRuntime() as runtime, load_registry(runtime) as registry:
        assert registry.group("jobs")
        assert registry.get("create_job").timeout_seconds == 660
        described = {"title": "a", "description": "b"}
        assert registry.execute("create_job", described).result["output"] == "built"


def test_the_other_modes_need_a_runner_of_the_program(registry: ToolRegistry) -> None:
    add_jobs(registry, modes={"claude_code": Calling(lambda *_: "by the other runner")})
    answer = registry.execute("create_job", TASK | {"mode": "claude_code", "wait": True}).result
    assert answer["output"] == "by the other runner"
