"""The jobs of one registry: creating, running, watching and ending them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wasmrt.agent.jobs._model import (
    JOB_SECONDS,
    MAX_CONTEXT_CHARS,
    MAX_DESCRIPTION_CHARS,
    MAX_ITERATIONS,
    MAX_PARALLEL_JOBS,
    MAX_PROMPT_CHARS,
    MAX_TITLE_CHARS,
    SANDBOX,
    STUCK_SECONDS,
    Job,
    JobEvent,
    JobState,
    JobTask,
    Prompt,
    Transition,
)
from wasmrt.agent.jobs._project import create_project
from wasmrt.agent.jobs._run import Run, describe_error
from wasmrt.agent.jobs._runner import AgentRunner, ResumableRunner
from wasmrt.agent.jobs._store import JobStore, Owned, Spent
from wasmrt.agent.registry import ToolRegistry, ToolView, detector_of, is_narrowed, limit_servers
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, WasmrtError
from wasmrt.core.leases import LEASE_SECONDS, LeaseKeeper, now_ms
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import store_place

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

_POLL_SECONDS = 0.25
"""The time between two checks whether another process cancelled a job."""
_CHECK_SECONDS = 60.0
"""The longest time between two checks for jobs of ended processes."""


class Jobs:
    """The background jobs of a registry's users, stored in a file or database that processes share.

    Args:
        registry: Has the tools of the jobs.
        runner: Runs the jobs that are created without a mode.
        modes: The runners of modes, such as `sandbox`.
        tools: Returns the tools of a job, given the tools of its creator. By default, these are the tools of a
            sub-agent: they only read. SECURITY: a view can be narrowed only, so a job never has more tools than its
            creator.
        max_parallel: The number of jobs of all users that may be active.
        max_parallel_per_user: The number of jobs of one user that may be active.
        max_tokens: The number of tokens that a job may use, or None.
        seconds: The longest time of a run.
        path: The file of the jobs, or a database that hosts share. By default, the setting `database`, or else a file
            in the data folder.

    Example:
        >>> from wasmrt import Jobs, JobTask, ToolRegistry
        >>> class Shout:
        ...     def run(self, task, job):
        ...         return task.description.upper()
        >>> with Jobs(ToolRegistry(), Shout()) as jobs:
        ...     job = jobs.create(JobTask("Shout", "hello"))
        ...     jobs.wait(job.id, seconds=30).output
        'HELLO'
    """

    def __init__(
        self,
        registry: ToolRegistry,
        runner: AgentRunner | None = None,
        *,
        modes: Mapping[str, AgentRunner] | None = None,
        tools: Callable[[ToolView], ToolView] = ToolView.for_subagent,
        max_parallel: int = MAX_PARALLEL_JOBS,
        max_parallel_per_user: int | None = None,
        max_tokens: int | None = None,
        seconds: float = JOB_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        path: Path | Postgres | None = None,
    ) -> None:
        self._runners = dict(modes or {}) | ({} if runner is None else {"": runner})
        for each in self._runners.values():
            if not isinstance(each, AgentRunner) or isinstance(each, type):
                raise ConfigurationError(f"expected a runner with a method `run`, got {each!r:.80}")
        self._registry = registry
        self._tools = tools
        self._most = (max_parallel, max_parallel_per_user or max_parallel)
        self._max_tokens = max_tokens
        self._seconds = seconds
        self._store = JobStore(path or store_place(find_places().jobs), lease_seconds)
        self._runs: dict[str, Run] = {}
        """The runs of this process, by the owner of the lease."""
        self._redact = detector_of(registry).redact
        self._lock = threading.Lock()
        self._closed = False
        self._check_seconds = min(_CHECK_SECONDS, lease_seconds)
        self._checked = 0.0
        self._keeper = LeaseKeeper(
            self._store.leases, self._lifetimes, look=self._look, idle_seconds=self._check_seconds
        )

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that have a runner; the empty text is the runner for jobs without a mode."""
        return tuple(sorted(self._runners))

    # -- jobs of a user --------------------------------------------------------------------------------------------

    def create(
        self,
        task: JobTask,
        *,
        user: str = "local",
        mode: str = "",
        view: ToolView | None = None,
        labels: Iterable[str] | None = None,
        mcp_servers: Iterable[str] | None = None,
    ) -> Job:
        """Store a job and start it.

        `view` has the tools of the job's creator; by default, these are all tools of the registry. `labels` are those
        of the creator's conversation; None if they are unknown. With `mcp_servers`, the job has no tools of other MCP
        servers.

        Raises:
            InvalidParametersError: the task is invalid, or the mode has no runner.
            LimitError: too many jobs are active.
        """
        check_task(task)
        if mode not in self._runners:
            known = ", ".join(filter(None, self._runners)) or "none"
            problem = f"mode {mode!r:.40} is not available" if mode else "a mode is required"
            other = ", or leave out mode" if "" in self._runners else ""
            raise InvalidParametersError(f"{problem}; available modes: {known}{other}")
        created = self._registry if view is None else view
        if mcp_servers is not None:
            created = limit_servers(created, self._registry, mcp_servers)
        narrowed = is_narrowed(created, self._registry)
        tools = self._tools(created)
        kept = None if labels is None else tuple(labels)
        title, description, context = map(self._redact, task[:3])  # SECURITY: they are stored in a file
        task = task._replace(title=title, description=description, context=context)
        job_id = str(uuid.uuid4())
        if mode == SANDBOX and not task.project_dir:
            task = task._replace(project_dir=str(create_project(user, job_id)))
        job = Job(job_id, user, task, mode, JobState.PENDING, now_ms(), None, None, 0, "", None, None, kept)
        owned = Owned(job, Spent(0, 0), uuid.uuid4().hex)
        run = self._new_run(owned, tools)
        with self._lock:
            if self._closed:
                raise ConfigurationError("the jobs are closed", hint="create a new Jobs object")
            self._store.expire()  # stuck jobs that no process continues free their slots
            most, most_of_user = self._most
            self._store.add(owned, narrowed=narrowed, most=most, most_of_user=most_of_user)
            self._start(run)
        self._keeper.wake()
        return job

    def find(self, job_id: str, *, user: str = "local") -> Job:
        """Return a user's job by its ID, or by a unique prefix of at least four hex digits.

        Raises:
            InvalidParametersError: none of the user's jobs has this ID, or several begin with it.
        """
        self.check()
        return self._store.find(user, job_id)

    def all(self, *, user: str = "local") -> list[Job]:
        """Return the user's jobs, newest first."""
        self.check()
        return self._store.all(user)

    def transitions(self, job_id: str, *, user: str = "local") -> list[Transition]:
        """Return the recorded changes of a job's state, oldest first."""
        return self._store.transitions(self.find(job_id, user=user).id)

    def events(self, job_id: str, *, user: str = "local", limit: int = 50) -> tuple[int, Sequence[JobEvent]]:
        """Return the number of a job's events, and the newest of them, oldest first."""
        return self._store.events(self.find(job_id, user=user).id, limit)

    def prompt(
        self, job_id: str, content: str, *, user: str = "local", done: bool = False,
        labels: Iterable[str] | None = None,
    ) -> Job:  # fmt: skip
        """Send a message to a job, which its runner reads at its next poll.

        Raises:
            InvalidParametersError: the user has no such job, or the message is too long.
            ToolError: the job has ended, or too many messages wait.
        """
        _check_text("content", content, MAX_PROMPT_CHARS)
        job = self.find(job_id, user=user)
        kept = None if labels is None else tuple(labels)
        self._store.add_prompt(job.id, Prompt(self._redact(content), done, kept))
        return job

    def cancel(self, job_id: str, *, user: str = "local", reason: str = "cancelled by the user") -> Job:
        """Cancel a job. The call that it makes, and its confined command, end within a second."""
        return self.move(job_id, JobState.CANCELLED, user=user, reason=reason)

    def move(
        self, job_id: str, state: JobState, *, user: str = "local", reason: str, unless_ended: bool = False
    ) -> Job:
        """Change a job's state. The program sets `submitted` and `accepted` after it has reviewed the job's result.

        With `unless_ended`, a job whose run has ended is returned unchanged.

        Raises:
            InvalidParametersError: the user has no such job.
            ToolError: the job cannot change to this state.
        """
        if state in (JobState.PENDING, JobState.IN_PROGRESS, JobState.STUCK):
            raise ConfigurationError(
                f"expected a state that follows a run, got {state}",
                hint="set submitted, accepted, failed or cancelled",
            )
        job = self.find(job_id, user=user)
        self._store.move(job.id, state, reason, unless_ended=unless_ended)
        for run in self._list_runs(job.id):
            run.lifetime.cancel()
        return self._store.find(user, job.id)

    def wait(
        self, job_id: str, *, user: str = "local", seconds: float | None = None, lifetime: Lifetime | None = None
    ) -> Job:
        """Wait until a job has ended, but at most `seconds`, and return it.

        Raises:
            CancelledError, DeadlineExceededError: `lifetime` has ended. The job continues.
        """
        waiting = Lifetime(JOB_SECONDS if seconds is None else seconds)
        while True:
            job = self.find(job_id, user=user)
            if job.ended_ms is not None or waiting.is_over:
                return job
            if lifetime is not None:
                lifetime.check()
            runs = self._list_runs(job.id)
            (runs[-1].ended if runs else waiting.cancelled).wait(min(_POLL_SECONDS, waiting.remaining()))

    # -- the runs of this process ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Look for jobs of ended processes, and continue or fail them. Jobs are also checked in the background."""
        self._store.expire()
        resumable = [mode for mode, runner in self._runners.items() if isinstance(runner, ResumableRunner)]
        with self._lock:
            if self._closed:
                return
            for owned in self._store.claim(self._runners, resumable):
                self._continue(owned)
        if self._runs:
            self._keeper.wake()

    def close(self) -> None:
        """End the runs of this process. Another process continues their jobs if their runner can; others fail."""
        with self._lock:
            self._closed = True
        self._keeper.close()
        for run in list(self._runs.values()):
            self._give_up(run, "the program ended")

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _new_run(self, owned: Owned, tools: ToolView) -> Run:
        return Run(owned, self._store, tools, self._seconds, self._max_tokens)

    def _start(self, run: Run) -> None:
        self._runs[run.owner] = run
        threading.Thread(target=run.work, args=(self._runners[run.mode],), name="wasmrt-job", daemon=True).start()

    def _list_runs(self, job_id: str) -> list[Run]:
        """Return the runs of a job, oldest first: several if the job was continued before its last run returned."""
        return [run for run in list(self._runs.values()) if run.job_id == job_id]

    def _continue(self, owned: Owned) -> None:
        """Start a run that continues a job; the job fails if it gets no tools."""
        try:
            run = self._new_run(owned, self._tools(self._registry))
        except Exception as error:  # the embedding program's function failed; the other jobs go on
            reason = f"its tools cannot be determined: {self._redact(describe_error(error))}"
            with suppress(WasmrtError):
                self._store.move(owned.job.id, JobState.FAILED, reason, owner=owned.owner)
            return
        self._start(run)

    def _lifetimes(self) -> dict[str, Lifetime]:
        """Return the lifetimes of the runs whose leases are renewed, by owner."""
        return {run.owner: run.lifetime for run in list(self._runs.values()) if not run.lifetime.is_over}

    def _look(self) -> None:
        """End the runs that are late or make no progress, and look for abandoned jobs."""
        for run in list(self._runs.values()):
            if run.ended.is_set():
                del self._runs[run.owner]
            elif run.lifetime.is_over and not run.lifetime.cancelled.is_set():
                self._fail_late(run)
            elif run.idle_seconds() > STUCK_SECONDS and self._is_resumable(run):
                self._give_up(run, f"no progress for {STUCK_SECONDS:g} s")
        if time.monotonic() - self._checked > self._check_seconds:
            self._checked = time.monotonic()
            self.check()

    def _is_resumable(self, run: Run) -> bool:
        return isinstance(self._runners[run.mode], ResumableRunner)

    def _fail_late(self, run: Run) -> None:
        """Fail a job whose runner did not end at its deadline."""
        with suppress(WasmrtError):
            self._store.move(run.job_id, JobState.FAILED, f"timed out after {self._seconds:g} s", owner=run.owner)
        run.lifetime.cancel()

    def _give_up(self, run: Run, reason: str) -> None:
        """End a run, so that its job can be continued; fail the job if its runner cannot continue it."""
        with suppress(WasmrtError):
            if self._is_resumable(run):
                self._store.release(run.job_id, run.owner, reason)
            else:
                self._store.move(run.job_id, JobState.FAILED, reason, owner=run.owner)
        run.lifetime.cancel()
        self._runs.pop(run.owner, None)


def check_task(task: JobTask) -> None:
    """Check the bounds of a task.

    Raises:
        InvalidParametersError: a text is empty or too long, or the number of iterations is out of range.
    """
    _check_text("title", task.title, MAX_TITLE_CHARS)
    _check_text("description", task.description, MAX_DESCRIPTION_CHARS)
    if len(task.context) > MAX_CONTEXT_CHARS:
        raise InvalidParametersError(f"context: expected at most {MAX_CONTEXT_CHARS:,} characters")
    if not 1 <= task.max_iterations <= MAX_ITERATIONS:
        raise InvalidParametersError(f"max_iterations: expected 1 to {MAX_ITERATIONS}, got {task.max_iterations}")


def _check_text(name: str, text: str, most: int) -> None:
    if not text.strip() or len(text) > most:
        raise InvalidParametersError(f"{name}: expected 1 to {most:,} characters, got {len(text):,}")
