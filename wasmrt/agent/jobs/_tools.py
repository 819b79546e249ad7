"""The tools of jobs: create_job, list_jobs, job_status, cancel_job, job_events and job_prompt.

Source of names, parameters, answers and messages: IronClaw's job tools, section 4.8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from wasmrt.agent.builtin.host_tool import HostTool, Params, trust_none
from wasmrt.agent.jobs._jobs import Jobs
from wasmrt.agent.jobs._model import (
    JOB_WAIT_SECONDS,
    MAX_DESCRIPTION_CHARS,
    MAX_ITERATIONS,
    MAX_PROMPT_CHARS,
    MAX_TITLE_CHARS,
    SANDBOX,
    TERMINAL,
    Job,
    JobState,
    JobTask,
)
from wasmrt.agent.jobs._project import check_project
from wasmrt.agent.jobs._runner import AgentRunner
from wasmrt.agent.registry import ToolRegistry, ToolView
from wasmrt.catalog.bundled import CREATE_JOB
from wasmrt.core.effects import Effect
from wasmrt.core.errors import InvalidParametersError, NotAuthorizedError, ToolError, ToolErrorKind
from wasmrt.runtime.context import ToolContext

_ACP = "acp"
_MODES = (SANDBOX, "worker", "claude_code", _ACP)
"""`worker` is another name of `sandbox`."""
_SANDBOX_SECONDS, _SECONDS = 660.0, 30.0
_MARGIN_SECONDS = 1.0
"""A call that waits for a job stops waiting this long before its deadline, so that it can still return its answer."""
_MAX_LISTED = 100
_MAX_EVENTS = 1000
_ID = {"type": "string", "description": "Full UUID or 4+ char prefix"}
_CREATE: dict[str, dict[str, Any]] = {
    "title": {"type": "string", "minLength": 1, "maxLength": MAX_TITLE_CHARS},
    "description": {"type": "string", "minLength": 1, "maxLength": MAX_DESCRIPTION_CHARS},
    "wait": {"type": "boolean", "description": "Wait for completion"},
    "mode": {"type": "string", "enum": list(_MODES)},
    "project_dir": {"type": "string", "description": "A folder below projects/"},
    "credentials": {"type": ["array", "object"], "maxItems": 20, "maxProperties": 20},
    "max_iterations": {"type": "integer", "minimum": 1, "maximum": MAX_ITERATIONS},
    "mcp_servers": {
        "type": "array",
        "maxItems": 32,
        "items": {"type": "string", "maxLength": 128},
        "description": "The MCP servers whose tools the job may use, by default all",
    },
    "agent_name": {"type": "string", "minLength": 1, "maxLength": 64, "description": "The agent, for mode acp"},
}
_LIST: dict[str, dict[str, Any]] = {
    "filter": {"type": "string", "enum": ["active", "completed", "failed", "all"], "default": "all"}
}
_EVENTS: dict[str, dict[str, Any]] = {
    "job_id": _ID,
    "limit": {"type": "integer", "default": 50, "description": "Number of newest events, 1 to 1000"},
}
_PROMPT: dict[str, dict[str, Any]] = {
    "job_id": _ID,
    "content": {"type": "string", "minLength": 1, "maxLength": MAX_PROMPT_CHARS},
    "done": {"type": "boolean", "default": False, "description": "True if the job should finish"},
}


def add_jobs(registry: ToolRegistry, runner: AgentRunner | None = None, **settings: Any) -> Jobs:
    """Register the tools of jobs in a registry, and return the jobs. The registry closes them.

    `settings` are further arguments of `Jobs`.

    Raises:
        ConfigurationError: the runner or a setting is invalid.
        InvalidNameError: the registry already has these tools.

    Example:
        >>> from wasmrt import ToolRegistry, add_jobs
        >>> class Shout:
        ...     def run(self, task, job):
        ...         return task.description.upper()
        >>> with ToolRegistry() as registry:
        ...     _ = add_jobs(registry, Shout())
        ...     call = {"title": "Shout", "description": "hello", "wait": True}
        ...     registry.execute("create_job", call).result["output"]
        'HELLO'
    """
    jobs = Jobs(registry, runner, **settings)
    registry.on_close(jobs.close)
    for tool in job_tools(jobs):
        registry.register(tool, builtin=True, group="jobs")
    return jobs


def job_tools(jobs: Jobs) -> tuple[HostTool, ...]:
    """Return the tools for the jobs of a registry. Each call accesses only its user's jobs."""
    calls = _JobCalls(jobs)
    reads, writes = [Effect.READ_MEMORY], [Effect.WRITE_MEMORY]
    return (
        HostTool(
            CREATE_JOB,
            "Start a background job: an agent or a confined program works on the task, with its own budget. Describe "
            "the task completely, because the job does not see this conversation. Use job_status and job_events later.",
            _CREATE, calls.create, required=["title", "description"], effects=[Effect.INVOKE_TOOL, *writes],
            timeout_seconds=_SANDBOX_SECONDS if SANDBOX in jobs.modes else _SECONDS, untrusted=trust_none,
        ),
        HostTool("list_jobs", "List your jobs, newest first.", _LIST, calls.list, effects=reads, untrusted=trust_none),
        HostTool(
            "job_status", "Return the state and the result of a job.", {"job_id": _ID}, calls.status,
            required=["job_id"], effects=reads, untrusted=trust_none,
        ),
        HostTool(
            "cancel_job", "Cancel a job. Its work ends.", {"job_id": _ID}, calls.cancel, required=["job_id"],
            effects=writes, approval=True,
        ),
        HostTool(
            "job_events", "Return the newest events of a job: messages, tool calls and results.", _EVENTS,
            calls.events, required=["job_id"], effects=reads, untrusted=trust_none,
        ),
        HostTool(
            "job_prompt", "Send a message to a running job. It reads the message at its next step.", _PROMPT,
            calls.prompt, required=["job_id", "content"], effects=writes, approval=True,
        ),
    )  # fmt: skip


class _JobCalls:
    """The functions of the tools, thread-safe."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def create(self, params: Params, context: ToolContext) -> dict[str, Any]:
        # SECURITY: the budget of a job also limits the work that it causes.
        if CREATE_JOB in context.receipt.chain:
            raise NotAuthorizedError("a job cannot create jobs", code="nested-job", hint="do the work in this job")
        _check_credentials(params.get("credentials"))
        mode = self._choose_mode(params)
        servers = params.get("mcp_servers")
        if servers and mode == SANDBOX:
            raise InvalidParametersError("mcp_servers: the command of a job has no tools; leave out mcp_servers")
        project = params.get("project_dir", "")
        folder = str(check_project(context.user, project)) if project else ""
        task = JobTask(params["title"], params["description"], project_dir=folder)
        if "max_iterations" in params:
            task = task._replace(max_iterations=params["max_iterations"])
        view = context.tools if isinstance(context.tools, ToolView) else None
        job = self._jobs.create(task, user=context.user, mode=mode, view=view, labels=context.seen, mcp_servers=servers)
        if params.get("wait", mode == SANDBOX):
            return self._wait(job, context)
        if mode == SANDBOX:
            return {"job_id": job.id, "status": "started"}
        message = "the job runs in the background: job_status shows its state"
        return {"job_id": job.id, "status": str(JobState.IN_PROGRESS), "title": job.task.title, "message": message}

    def list(self, params: Params, context: ToolContext) -> dict[str, Any]:
        found = self._jobs.all(user=context.user)
        chosen = [job for job in found if _FILTERS[params.get("filter", "all")](job)]
        counted = (JobState.PENDING, JobState.IN_PROGRESS, JobState.COMPLETED, JobState.FAILED)
        summary = {"total": len(found)} | {str(state): sum(job.state is state for job in found) for state in counted}
        listed = [
            {
                "job_id": job.id,
                "title": job.task.title,
                "status": str(job.state),
                "created_at": _format_time(job.created_ms),
            }
            for job in chosen[:_MAX_LISTED]
        ]
        omitted = {"omitted": len(chosen) - _MAX_LISTED} if len(chosen) > _MAX_LISTED else {}
        return {"jobs": listed, "summary": summary} | omitted

    def status(self, params: Params, context: ToolContext) -> dict[str, Any]:
        job = self._jobs.find(params["job_id"], user=context.user)
        return {
            "job_id": job.id, "title": job.task.title, "description": job.task.description, "status": str(job.state),
            "created_at": _format_time(job.created_ms), "started_at": _format_time(job.started_ms),
            "completed_at": _format_time(job.ended_ms), "output": job.output, "actual_cost": job.cost,
            "fallback_deliverable": job.fallback,
        }  # fmt: skip

    def cancel(self, params: Params, context: ToolContext) -> dict[str, Any]:
        job = self._jobs.cancel(params["job_id"], user=context.user)
        return {"job_id": job.id, "status": str(job.state), "message": f"cancelled the job {job.task.title!r}"}

    def events(self, params: Params, context: ToolContext) -> dict[str, Any]:
        job = self._jobs.find(params["job_id"], user=context.user)
        limit = min(max(params.get("limit", 50), 1), _MAX_EVENTS)
        total, found = self._jobs.events(job.id, user=context.user, limit=limit)
        events = [
            {"event_type": event.event_type, "data": event.data, "created_at": _format_time(event.created_ms)}
            for event in found
        ]
        return {"job_id": job.id, "total_events": total, "returned": len(events), "events": events}

    def prompt(self, params: Params, context: ToolContext) -> dict[str, Any]:
        done = params.get("done", False)
        job = self._jobs.prompt(params["job_id"], params["content"], user=context.user, done=done, labels=context.seen)
        message = "the job reads the message at its next step"
        return {"job_id": job.id, "status": "queued", "message": message, "done": done}

    def _choose_mode(self, params: Params) -> str:
        given, agent = params.get("mode", ""), params.get("agent_name")
        if agent is not None and given != _ACP:
            raise InvalidParametersError(f"agent_name requires mode {_ACP}, got {given or 'none'}")
        if agent is not None:
            return f"{_ACP}:{agent}"
        mode = SANDBOX if given == "worker" else given
        if not mode and "" not in self._jobs.modes and SANDBOX in self._jobs.modes:
            return SANDBOX
        return mode

    def _wait(self, job: Job, context: ToolContext) -> dict[str, Any]:
        """Wait for a job within the time of the call. A job that runs longer than `JOB_WAIT_SECONDS` fails."""
        left = JOB_WAIT_SECONDS if context.lifetime is None else context.lifetime.remaining() - _MARGIN_SECONDS
        seconds = max(min(JOB_WAIT_SECONDS, left), 0.0)
        ended = self._jobs.wait(job.id, user=job.user, seconds=seconds, lifetime=context.lifetime)
        if ended.ended_ms is None and seconds < JOB_WAIT_SECONDS:
            message = "the job still runs: job_status shows its state"
            return {"job_id": job.id, "status": str(ended.state), "title": job.task.title, "message": message}
        if ended.ended_ms is None:
            reason = f"timed out ({JOB_WAIT_SECONDS / 60:.0f} minutes)"
            # A job that completed since the last look keeps its result.
            ended = self._jobs.move(job.id, JobState.FAILED, user=job.user, reason=reason, unless_ended=True)
            if ended.output == reason:
                raise ToolError(f"job {job.id} {reason}", code="job-timeout", kind=ToolErrorKind.TIMEOUT)
        if ended.state in (JobState.FAILED, JobState.CANCELLED):
            raise ToolError(f"job {job.id} {ended.state}: {ended.output}", code=f"job-{ended.state}")
        answer = {"job_id": job.id, "status": str(ended.state), "output": ended.output}
        return answer | {"project_dir": ended.task.project_dir or None}


_FILTERS: dict[str, Callable[[Job], bool]] = {
    "all": lambda job: True,
    "active": lambda job: job.state not in TERMINAL,
    "completed": lambda job: job.state is JobState.COMPLETED,
    "failed": lambda job: job.state is JobState.FAILED,
}


def _check_credentials(given: list[Any] | Mapping[str, Any] | None) -> None:
    """Refuse secrets. SECURITY: a job, or its program, could print or store the value that it receives."""
    if given:
        raise InvalidParametersError(
            f"credentials: these secrets cannot be given to a job: {', '.join(map(str, given))[:200]}. A job could "
            "print or store their values. Leave out credentials, and let the job call a tool whose grant has the "
            "credential.",
            hint="grant the credential to a tool: wasmrt grant NAME --add credentials",
        )


def _format_time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
