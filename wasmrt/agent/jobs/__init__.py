"""Jobs: tasks that a runner of the embedding program, or a confined command, works on in the background."""

from __future__ import annotations

from wasmrt.agent.jobs._agent import FunctionRunner
from wasmrt.agent.jobs._command import CommandRunner
from wasmrt.agent.jobs._jobs import Jobs, check_task
from wasmrt.agent.jobs._model import (
    MAX_CONTEXT_CHARS,
    SANDBOX,
    TERMINAL,
    TRANSITIONS,
    Job,
    JobEvent,
    JobResult,
    JobState,
    JobTask,
    Prompt,
    Transition,
)
from wasmrt.agent.jobs._project import create_project
from wasmrt.agent.jobs._run import read_result
from wasmrt.agent.jobs._runner import AgentRunner, Budget, JobContext, ResumableRunner
from wasmrt.agent.jobs._store import JobStore
from wasmrt.agent.jobs._tools import add_jobs, job_tools

__all__ = [
    "MAX_CONTEXT_CHARS",
    "SANDBOX",
    "TERMINAL",
    "TRANSITIONS",
    "AgentRunner",
    "Budget",
    "CommandRunner",
    "FunctionRunner",
    "Job",
    "JobContext",
    "JobEvent",
    "JobResult",
    "JobState",
    "JobStore",
    "JobTask",
    "Jobs",
    "Prompt",
    "ResumableRunner",
    "Transition",
    "add_jobs",
    "check_task",
    "create_project",
    "job_tools",
    "read_result",
]
