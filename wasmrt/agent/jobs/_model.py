"""Jobs as values: states, legal transitions, the rows that users see, and the limits.

Source of states, transitions, names and limits: IronClaw's job tools, section 4.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from wasmrt.core.errors import ToolError
from wasmrt.core.limits import KIB

MAX_PARALLEL_JOBS = 5  # all users together
JOB_SECONDS = 3600.0  # the longest run
JOB_WAIT_SECONDS = 600.0  # a job that `create_job` waits for fails after this time
STUCK_SECONDS = 300.0  # a run without an event, a call or an iteration is stuck
MAX_REPAIRS = 3  # number of times that a stuck job is continued
LEASE_SECONDS = 30.0
DEFAULT_ITERATIONS = 50
MAX_ITERATIONS = 500
MAX_TITLE_CHARS = 256
MAX_DESCRIPTION_CHARS = 64 * KIB
MAX_CONTEXT_CHARS = 320 * KIB
"""Maximum length of the text that is added to a task. A routine adds 16 documents, an event and its last result."""
MAX_PROMPT_CHARS = 32 * KIB
MAX_PENDING_PROMPTS = 64
MAX_EVENTS_PER_JOB = 10_000
MAX_EVENT_CHARS = 16 * KIB
MAX_OUTPUT_CHARS = 256 * KIB
MAX_JOBS_PER_USER = 1_000
"""Maximum number of stored jobs of a user. If there are more, the user's oldest finished jobs are deleted."""
SANDBOX = "sandbox"
"""The mode of jobs that run a confined command in a project folder."""
EVENT_TYPES = ("message", "tool_use", "tool_result", "status", "result", "turn_result")


class JobState(StrEnum):
    """The state of a job."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    SUBMITTED = "submitted"
    ACCEPTED = "accepted"
    FAILED = "failed"
    STUCK = "stuck"
    CANCELLED = "cancelled"


_S = JobState
TRANSITIONS: Mapping[JobState, frozenset[JobState]] = MappingProxyType(
    {
        _S.PENDING: frozenset({_S.IN_PROGRESS, _S.FAILED, _S.CANCELLED}),
        _S.IN_PROGRESS: frozenset({_S.COMPLETED, _S.FAILED, _S.STUCK, _S.CANCELLED}),
        _S.COMPLETED: frozenset({_S.SUBMITTED, _S.FAILED}),
        _S.SUBMITTED: frozenset({_S.ACCEPTED, _S.FAILED}),
        _S.STUCK: frozenset({_S.IN_PROGRESS, _S.FAILED, _S.CANCELLED}),
        _S.ACCEPTED: frozenset(),
        _S.FAILED: frozenset(),
        _S.CANCELLED: frozenset(),
    }
)
"""The states that follow each state. In addition, `completed` to `completed` changes nothing and is no error."""
TERMINAL = frozenset(state for state, after in TRANSITIONS.items() if not after)
IN_SLOT = frozenset({_S.PENDING, _S.IN_PROGRESS, _S.STUCK})
"""States in which a job counts towards `MAX_PARALLEL_JOBS`."""


class JobTask(NamedTuple):
    """The task of a job.

    Example:
        >>> from wasmrt import JobTask
        >>> JobTask("Weekly report", "Summarize the issues of this week.").max_iterations
        50
    """

    title: str
    description: str
    context: str = ""
    """Further text for the prompt, such as the content of documents."""
    max_iterations: int = DEFAULT_ITERATIONS
    project_dir: str = ""
    """The folder of the job's files; empty if the job has none."""


class JobResult(NamedTuple):
    """The result of a run. A runner may return a text instead, which is the output of a successful run."""

    output: str
    success: bool = True
    cost: Decimal | None = None
    """The cost of the run, in the operator's currency; None if it is unknown."""
    fallback: Mapping[str, Any] | None = None
    """For a failed run, the parts of the work that are done, as JSON data."""


class Transition(NamedTuple):
    """One recorded change of a job's state."""

    before: JobState
    after: JobState
    at_ms: int
    reason: str


class JobEvent(NamedTuple):
    """One event of a run."""

    event_type: str
    data: Mapping[str, Any]
    created_ms: int


class Prompt(NamedTuple):
    """A message to a running job."""

    content: str
    done: bool
    """True if no further message follows, and the job should finish."""
    labels: tuple[str, ...] | None = None
    """Labels of the conversation that sent the message; None if they are unknown."""


class Job(NamedTuple):
    """A job as it is stored."""

    id: str
    user: str
    task: JobTask
    mode: str
    state: JobState
    created_ms: int
    started_ms: int | None
    ended_ms: int | None
    repairs: int
    output: str
    """The output of a completed job, or the reason why it failed or was cancelled."""
    cost: str | None
    fallback: Mapping[str, Any] | None
    labels: tuple[str, ...] | None
    """Labels of the conversation that created the job; None if they are unknown."""


def check_transition(before: JobState, after: JobState) -> bool:
    """Return whether a change of state has to be recorded: `completed` to `completed` does not.

    Raises:
        ToolError: the states do not follow each other.
    """
    if after in TRANSITIONS[before]:
        return True
    if before is after is JobState.COMPLETED:
        return False
    raise ToolError(
        f"Job already in state {before}, cannot transition to {after}", code="job-state",
        hint="job_status shows the current state",
    )  # fmt: skip
