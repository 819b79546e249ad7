"""A background job: create it, send it a message, approve a call that it makes, and read its events."""

from pathlib import Path
from typing import Any

from wasmrt import CallbackApprover, JobContext, JobTask, ToolRegistry, add_jobs, tool


@tool(effects=["read-filesystem"])
def read_note(name: str) -> str:
    """Read a note by its name."""
    return f"{name}: buy otter food"


@tool(effects=["network", "external-write"])
def send(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {len(text)} characters to {to}"


class Mailer:
    """An agent: instead of a model, it follows a fixed plan."""

    def run(self, task: JobTask, job: JobContext) -> str:
        """Wait for the address, then read the note and mail it."""
        while not (messages := job.inbox()):
            job.lifetime.wait(0.05)  # raises an error if the job is cancelled
        job.begin_iteration()
        note = job.tools.execute("read_note", {"name": task.title}).result
        sent = job.tools.execute("send", {"to": messages[0].content, "text": note})
        job.emit("message", {"role": "assistant", "content": "done"})
        return str(sent.result)


def mail_note(path: Path, address: str, asked: list[str]) -> dict[str, Any]:
    """Let a job mail a note, and return its output with the types of its events."""

    def approve(request: Any) -> bool:
        asked.append(request.tool)
        return True

    with ToolRegistry(approver=CallbackApprover(approve)) as registry:
        for function in (read_note, send):
            registry.register(function)
        # By default, a job gets only tools that read. This program lets jobs send mail, too; each mail is approved.
        jobs = add_jobs(registry, Mailer(), tools=lambda view: view.only(["read_note", "send"]), path=path)
        call = {"title": "shopping", "description": "Mail the note to the address in the first message."}
        job_id = registry.execute("create_job", call).result["job_id"]
        registry.execute("job_prompt", {"job_id": job_id[:8], "content": address})
        ended = jobs.wait(job_id, seconds=30)
        events = registry.execute("job_events", {"job_id": job_id}).result["events"]
        return {"output": ended.output, "events": [event["event_type"] for event in events]}
