"""The interface of the program that runs a job: wasmrt has no model, so the embedding program passes a runner."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from wasmrt.agent.jobs._model import JobEvent, JobResult, JobTask, Prompt
from wasmrt.agent.registry import ToolView
from wasmrt.core.lifetime import Lifetime


class Budget(NamedTuple):
    """The part of a job's limits that is left."""

    seconds: float
    iterations: int
    tokens: int | None = None
    """None if the tokens of a job are not limited."""


class JobContext(Protocol):
    """One run of a job, for its runner.

    The methods that read messages, record an event or count something raise `CancelledError` if the job has ended.
    """

    @property
    def job_id(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def trace_id(self) -> str:
        """The trace of the job's calls. `tools` uses it for every call."""

    @property
    def tools(self) -> ToolView:
        """The tools of the job. Every call is a call of the job's user, and its receipt names the job as parent."""

    @property
    def lifetime(self) -> Lifetime:
        """The time limit of the run, which is also ended by a cancellation."""

    @property
    def cancelled(self) -> bool:
        """True if the job has ended: cancelled, out of time, or continued by another process."""

    def inbox(self) -> Sequence[Prompt]:
        """Return the messages that arrived since the last call, in order."""

    def emit(self, event_type: str, data: Mapping[str, Any]) -> None:
        """Record an event. Secrets in `data` are redacted. Calls of `tools` are recorded automatically.

        Raises:
            ConfigurationError: the type is unknown, or `data` is not JSON data.
        """

    def events(self) -> Sequence[JobEvent]:
        """Return the events of all runs of the job so far, for a runner that continues it."""

    def begin_iteration(self) -> None:
        """Count one turn of the model.

        Raises:
            BudgetExceededError: the job has used all its iterations.
        """

    def add_tokens(self, count: int) -> None:
        """Count tokens that the model used.

        Raises:
            BudgetExceededError: the job has used more tokens than it may.
        """

    def remaining(self) -> Budget:
        """Return the time, iterations and tokens that are left."""


@runtime_checkable
class AgentRunner(Protocol):
    """Runs the model loop of a job. `run` may be a coroutine function; it runs in a separate thread.

    The job fails if `run` raises an error. A coroutine is cancelled if the job is; other runners check
    `job.cancelled`, or end with the `CancelledError` of their next call.

    Example:
        >>> from wasmrt import AgentRunner, JobContext, JobTask
        >>> class Echo:
        ...     def run(self, task: JobTask, job: JobContext) -> str:
        ...         return job.tools.execute("echo", {"message": task.description}).result["message"]
        >>> isinstance(Echo(), AgentRunner)
        True
    """

    def run(self, task: JobTask, job: JobContext) -> JobResult | str | Awaitable[JobResult | str]:
        """Work on the task, and return its result."""


@runtime_checkable
class ResumableRunner(AgentRunner, Protocol):
    """A runner that can continue a job whose process has ended. With any other runner, such a job fails.

    SECURITY: a run is never repeated from its start, because that would repeat its side effects.
    """

    def resume(self, task: JobTask, job: JobContext) -> JobResult | str | Awaitable[JobResult | str]:
        """Continue the task, from the recorded events or the program's own data."""
