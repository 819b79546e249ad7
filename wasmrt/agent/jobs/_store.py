"""The stored jobs, which all processes of an installation share, and all hosts if they are in PostgreSQL.

Every row belongs to a user. A write of a run has no effect unless the run holds the lease of its job.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wasmrt.agent.jobs._model import (
    IN_SLOT,
    MAX_EVENTS_PER_JOB,
    MAX_PENDING_PROMPTS,
    STUCK_SECONDS,
    Job,
    JobEvent,
    JobResult,
    JobState,
    Prompt,
    Transition,
    check_transition,
)
from wasmrt.agent.jobs._rows import (
    ENDED_REASON,
    SCHEMA,
    VERSION,
    delete_oldest,
    fail,
    labels_from_text,
    labels_to_text,
    read_job,
    reason_not_to_run,
    record,
    unusable_error,
)
from wasmrt.core.database import Connection, Store, open_store, storable_text
from wasmrt.core.errors import CancelledError, InvalidParametersError, LimitError, ToolError
from wasmrt.core.leases import LEASE_SECONDS, WITHOUT_LEASE, Leases, end_lease, now_ms

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres


class Spent(NamedTuple):
    """The part of its budget that a job has used, in all of its runs."""

    iterations: int
    tokens: int


class Owned(NamedTuple):
    """A job whose lease a run holds."""

    job: Job
    spent: Spent
    owner: str
    """The random name of the run in the lease."""


class JobStore:
    """The jobs of all users. Thread-safe; each method is one transaction."""

    def __init__(self, path: Path | Postgres, lease_seconds: float = LEASE_SECONDS) -> None:
        self._database: Store = open_store(path, "jobs", SCHEMA, VERSION, unusable=unusable_error)
        self.leases = Leases(self._database, seconds=lease_seconds)

    # -- jobs ------------------------------------------------------------------------------------------------------

    def add(self, owned: Owned, *, narrowed: bool, most: int, most_of_user: int) -> None:
        """Store a new job, and take its lease.

        Raises:
            LimitError: too many jobs are active. The check and the insertion are one transaction.
        """
        job = owned.job
        with self._database.writing() as db:
            counts = "SELECT count(*), count(*) FILTER (WHERE user = ?) FROM in_slot"
            active, active_of_user = db.execute(counts, (job.user,)).fetchone()
            if active >= most or active_of_user >= most_of_user:
                bound = most if active >= most else most_of_user
                message = f"Maximum parallel jobs ({bound}) exceeded"
                hint = "wait until a job has ended, or cancel one: list_jobs shows them"
                raise LimitError(message, limit=bound, used=bound + 1, setting="MAX_PARALLEL_JOBS", hint=hint)
            delete_oldest(db, job.user)
            task = job.task
            db.execute(
                "INSERT INTO jobs (id, user, mode, title, description, context, max_iterations, project_dir, labels,"
                " narrowed, state, created_ms, changed_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    job.id, job.user, job.mode, *map(storable_text, task[:3]), task.max_iterations, task.project_dir,
                    labels_to_text(job.labels), int(narrowed), job.state, job.created_ms, job.created_ms,
                ),
            )  # fmt: skip
            self.leases.take(db, job.id, owned.owner)

    def find(self, user: str, text: str) -> Job:
        """Return the user's job with an ID, or with a unique prefix of one.

        SECURITY: only the user's own jobs are searched, so that a job of another user is not found, and never makes a
        prefix ambiguous.

        Raises:
            InvalidParametersError: the prefix is too short, or does not identify one job.
        """
        digits = text.strip().lower().replace("-", "")
        if len(digits) < 4 or set(digits) - set("0123456789abcdef"):
            raise InvalidParametersError("job ID prefix must be at least 4 hex characters")
        found: list[Any] = []
        if self._database.exists:
            query = "SELECT * FROM jobs WHERE user = ? AND replace(id, '-', '') LIKE ? || '%'"
            with self._database.reading() as db:
                found = db.execute(query, (user, digits)).fetchall()
        if not found:
            raise InvalidParametersError(f"no job found matching prefix {text!r:.60}")
        if len(found) > 1:
            raise InvalidParametersError(
                f"ambiguous prefix {text!r:.60} matches {len(found)} jobs, provide more characters"
            )
        return read_job(found[0])

    def all(self, user: str) -> list[Job]:
        """Return the user's jobs, newest first."""
        if not self._database.exists:
            return []
        with self._database.reading() as db:
            rows = db.execute("SELECT * FROM jobs WHERE user = ? ORDER BY number DESC", (user,)).fetchall()
        return [read_job(row) for row in rows]

    def latest(self, limit: int) -> list[Job]:
        """Return the newest jobs of all users, newest first, for the operator."""
        if not self._database.exists:
            return []
        with self._database.reading() as db:
            return [read_job(row) for row in db.execute("SELECT * FROM jobs ORDER BY number DESC LIMIT ?", (limit,))]

    def transitions(self, job_id: str) -> list[Transition]:
        """Return the recorded changes of a job's state, oldest first."""
        query = "SELECT before, after, at_ms, reason FROM transitions WHERE job = ? ORDER BY number"
        with self._database.reading() as db:
            rows = db.execute(query, (job_id,)).fetchall()
        return [Transition(JobState(before), JobState(after), at_ms, reason) for before, after, at_ms, reason in rows]

    def move(
        self, job_id: str, after: JobState, reason: str, *, owner: str | None = None, result: JobResult | None = None,
        unless_ended: bool = False,
    ) -> None:  # fmt: skip
        """Change a job's state and record the transition; with `unless_ended`, only if it is active.

        Raises:
            CancelledError: `owner` is given, and no longer holds the job's lease.
            ToolError: the job cannot change to this state.
        """
        with self._database.writing() as db:
            before = self._check_owner(db, job_id, owner)
            if (unless_ended and before not in IN_SLOT) or not check_transition(before, after):
                return
            record(db, job_id, before, after, reason)
            if result is not None:
                fallback = None if result.fallback is None else json.dumps(result.fallback)
                cost = None if result.cost is None else str(result.cost)
                update = "UPDATE jobs SET output = ?, cost = ?, fallback = ? WHERE id = ?"
                db.execute(update, (storable_text(result.output), cost, fallback, job_id))
            elif after not in (JobState.IN_PROGRESS, JobState.SUBMITTED, JobState.ACCEPTED):  # they keep the output
                db.execute("UPDATE jobs SET output = ? WHERE id = ?", (storable_text(reason), job_id))

    # -- leases ----------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Mark jobs of ended processes as stuck, and fail jobs that no process has started or continued."""
        if not self._database.exists:
            return
        query = f"SELECT id, state, changed_ms FROM in_slot WHERE {WITHOUT_LEASE}"  # noqa: S608 - a constant
        with self._database.reading() as db:
            if db.execute(query, (self.leases.now_ms(db),)).fetchone() is None:
                return
        with self._database.writing() as db:
            now = self.leases.now_ms(db)
            for job_id, state, changed_ms in db.execute(query, (now,)).fetchall():
                if state == JobState.IN_PROGRESS:
                    record(db, job_id, JobState.IN_PROGRESS, JobState.STUCK, ENDED_REASON)
                elif now - changed_ms > STUCK_SECONDS * 1000:
                    fail(db, job_id, JobState(state), "no process started or continued it")

    def claim(self, modes: Iterable[str], resumable: Iterable[str]) -> list[Owned]:
        """Take the leases of pending and stuck jobs that no process holds, and return the jobs to run.

        `modes` are the modes for which the caller has runners. A stuck job is taken only in a mode of `resumable`;
        otherwise it fails, because running it again could repeat side effects.
        """
        modes, resumable = set(modes), set(resumable)
        if not self._database.exists:
            return []
        query = f"SELECT * FROM waiting WHERE {WITHOUT_LEASE}"  # noqa: S608 - a constant
        with self._database.reading() as db:
            if not any(row["mode"] in modes for row in db.execute(query, (self.leases.now_ms(db),))):
                return []
        taken = []
        with self._database.writing() as db:
            for row in db.execute(query, (self.leases.now_ms(db),)).fetchall():
                if row["mode"] not in modes:
                    continue
                state = JobState(row["state"])
                if problem := reason_not_to_run(row, row["mode"] in resumable):
                    fail(db, row["id"], state, problem)
                    continue
                stuck = state is JobState.STUCK
                owner = uuid.uuid4().hex
                self.leases.take(db, row["id"], owner)
                if stuck:
                    db.execute("UPDATE jobs SET repairs = repairs + 1 WHERE id = ?", (row["id"],))
                    record(db, row["id"], state, JobState.IN_PROGRESS, "another process continued it")
                changed = db.execute("SELECT * FROM jobs WHERE id = ?", (row["id"],)).fetchone()
                taken.append(Owned(read_job(changed), Spent(row["iterations"], row["tokens"]), owner))
        return taken

    def release(self, job_id: str, owner: str, reason: str) -> None:
        """End the lease of a job, so that another process can take the job. A job that has started becomes stuck.

        Raises:
            CancelledError: `owner` no longer holds the job's lease.
        """
        with self._database.writing() as db:
            state = self._check_owner(db, job_id, owner)
            if state is JobState.IN_PROGRESS:
                record(db, job_id, state, JobState.STUCK, reason)
            end_lease(db, job_id)

    # -- runs ------------------------------------------------------------------------------------------------------

    def spend(self, job_id: str, owner: str, spent: Spent) -> None:
        """Store the part of its budget that a job has used."""
        with self._database.writing() as db:
            self._check_owner(db, job_id, owner)
            db.execute("UPDATE jobs SET iterations = ?, tokens = ? WHERE id = ?", (*spent, job_id))

    def add_event(self, job_id: str, owner: str, event_type: str, data: str) -> None:
        """Store an event of a run; beyond the limit, the oldest event is deleted."""
        with self._database.writing() as db:
            self._check_owner(db, job_id, owner)
            insert = "INSERT INTO events (job, type, data, created_ms) VALUES (?, ?, ?, ?)"
            db.execute(insert, (job_id, event_type, data, now_ms()))
            db.execute(
                "DELETE FROM events WHERE job = ? AND number <="
                " (SELECT number FROM events WHERE job = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (job_id, job_id, MAX_EVENTS_PER_JOB),
            )

    def events(self, job_id: str, limit: int) -> tuple[int, list[JobEvent]]:
        """Return the number of a job's events, and the newest ones, oldest first."""
        query = "SELECT type, data, created_ms FROM events WHERE job = ? ORDER BY number DESC LIMIT ?"
        with self._database.reading() as db:
            (total,) = db.execute("SELECT count(*) FROM events WHERE job = ?", (job_id,)).fetchone()
            rows = db.execute(query, (job_id, limit)).fetchall()
        return total, [JobEvent(kind, json.loads(data), created) for kind, data, created in reversed(rows)]

    def add_prompt(self, job_id: str, prompt: Prompt) -> None:
        """Store a message to a job that has not ended.

        Raises:
            ToolError: the job has ended.
            LimitError: too many messages wait for delivery.
        """
        with self._database.writing() as db:
            state = self._check_owner(db, job_id, None)
            if state not in IN_SLOT:
                raise ToolError(
                    f"Job already in state {state}, and accepts no prompt", code="job-state",
                    hint="create a new job",
                )  # fmt: skip
            (waiting,) = db.execute("SELECT count(*) FROM prompts WHERE job = ?", (job_id,)).fetchone()
            if waiting >= MAX_PENDING_PROMPTS:
                message = f"the job has {waiting} prompts that it has not read"
                hint = "wait until the job has read them: job_events shows its progress"
                raise LimitError(message, limit=waiting, used=waiting + 1, setting="MAX_PENDING_PROMPTS", hint=hint)
            insert = "INSERT INTO prompts (job, content, done, labels) VALUES (?, ?, ?, ?)"
            db.execute(insert, (job_id, storable_text(prompt.content), int(prompt.done), labels_to_text(prompt.labels)))

    def take_prompts(self, job_id: str, owner: str) -> list[Prompt]:
        """Remove and return the messages to a job, oldest first."""
        query = "SELECT content, done, labels FROM prompts WHERE job = ? ORDER BY number"
        with self._database.writing() as db:
            self._check_owner(db, job_id, owner)
            rows = db.execute(query, (job_id,)).fetchall()
            db.execute("DELETE FROM prompts WHERE job = ?", (job_id,))
        return [Prompt(content, bool(done), labels_from_text(labels)) for content, done, labels in rows]

    def _check_owner(self, db: Connection, job_id: str, owner: str | None) -> JobState:
        """Return a job's state.

        SECURITY: a process that lost the lease must not change the job, because another process may run it now.

        Raises:
            CancelledError: `owner` does not hold the job's lease.
        """
        (state,) = db.execute("SELECT state FROM jobs WHERE id = ?", (job_id,)).fetchone()
        if owner is not None and not self.leases.is_held(db, job_id, owner):
            raise CancelledError("the job has ended, or another process continues it")
        return JobState(state)
