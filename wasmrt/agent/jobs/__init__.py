"""Jobs: tasks that a runner of the embedding program, or a confined command, works on in the background."""

from __future__ import annotations

from wasmrt.agent.jobs._jobs import Jobs
from wasmrt.agent.jobs._model import TRANSITIONS, Job, JobEvent, JobResult, JobState, JobTask, Prompt, Transition
from wasmrt.agent.jobs._runner import AgentRunner, Budget, JobContext, ResumableRunner

__all__ = [
    "TRANSITIONS",
    "AgentRunner",
    "Budget",
    "Job",
    "JobContext",
    "JobEvent",
    "JobResult",
    "JobState",
    "JobTask",
    "Jobs",
    "Prompt",
    "ResumableRunner",
    "Transition",
]
