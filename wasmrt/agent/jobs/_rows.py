"""The schema of the stored jobs, and the functions that read and change single rows within a transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from wasmrt.agent.jobs._model import (
    IN_SLOT,
    MAX_JOBS_PER_USER,
    MAX_REPAIRS,
    TRANSITIONS,
    Job,
    JobState,
    JobTask,
)
from wasmrt.core.database import Connection, storable_text
from wasmrt.core.errors import ToolError
from wasmrt.core.leases import LEASES_TABLE, end_lease, now_ms

_JOBS_TABLES = """
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, user TEXT NOT NULL, mode TEXT NOT NULL,
  title TEXT NOT NULL, description TEXT NOT NULL, context TEXT NOT NULL, max_iterations INTEGER NOT NULL,
  project_dir TEXT NOT NULL, labels TEXT, narrowed INTEGER NOT NULL, state TEXT NOT NULL, created_ms INTEGER NOT NULL,
  started_ms INTEGER, ended_ms INTEGER, changed_ms INTEGER NOT NULL, repairs INTEGER NOT NULL DEFAULT 0,
  iterations INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, output TEXT NOT NULL DEFAULT '',
  cost TEXT, fallback TEXT
);
CREATE INDEX jobs_of_user ON jobs (user, number);
CREATE INDEX jobs_by_state ON jobs (state);
CREATE TABLE transitions (
  number INTEGER PRIMARY KEY, job TEXT NOT NULL REFERENCES jobs (id), before TEXT NOT NULL, after TEXT NOT NULL,
  at_ms INTEGER NOT NULL, reason TEXT NOT NULL
);
CREATE INDEX transitions_of_job ON transitions (job);
CREATE TABLE events (
  number INTEGER PRIMARY KEY, job TEXT NOT NULL REFERENCES jobs (id), type TEXT NOT NULL, data TEXT NOT NULL,
  created_ms INTEGER NOT NULL
);
CREATE INDEX events_of_job ON events (job, number);
CREATE TABLE prompts (
  number INTEGER PRIMARY KEY, job TEXT NOT NULL REFERENCES jobs (id), content TEXT NOT NULL, done INTEGER NOT NULL,
  labels TEXT
);
CREATE INDEX prompts_of_job ON prompts (job, number);
CREATE VIEW in_slot AS SELECT * FROM jobs WHERE state IN ('pending', 'in_progress', 'stuck');
CREATE VIEW finished AS SELECT * FROM jobs WHERE state NOT IN ('pending', 'in_progress', 'stuck');
CREATE VIEW waiting AS SELECT * FROM jobs WHERE state IN ('pending', 'stuck');
"""
SCHEMA = _JOBS_TABLES + LEASES_TABLE
VERSION = 2
ENDED_REASON = "the process that ran the job ended"


def record(db: Connection, job_id: str, before: JobState, after: JobState, reason: str) -> None:
    """Change the state of a job, and record the transition."""
    assert after in TRANSITIONS[before]
    now = now_ms()
    db.execute("UPDATE jobs SET state = ?, changed_ms = ? WHERE id = ?", (after, now, job_id))
    if after is JobState.IN_PROGRESS and before is JobState.PENDING:
        db.execute("UPDATE jobs SET started_ms = ? WHERE id = ?", (now, job_id))
    if after not in (JobState.PENDING, JobState.IN_PROGRESS):
        end_lease(db, job_id)
    if after not in IN_SLOT:
        db.execute("UPDATE jobs SET ended_ms = coalesce(ended_ms, ?) WHERE id = ?", (now, job_id))
        db.execute("DELETE FROM prompts WHERE job = ?", (job_id,))
    insert = "INSERT INTO transitions (job, before, after, at_ms, reason) VALUES (?, ?, ?, ?, ?)"
    db.execute(insert, (job_id, before, after, now, storable_text(reason)))


def fail(db: Connection, job_id: str, before: JobState, reason: str) -> None:
    """Fail a job for a reason, which becomes its output."""
    record(db, job_id, before, JobState.FAILED, reason)
    db.execute("UPDATE jobs SET output = ? WHERE id = ?", (storable_text(reason), job_id))


def reason_not_to_run(row: Any, resumable: bool) -> str:
    """Return the reason why a job whose process has ended cannot be run; an empty string if it can be run."""
    if row["narrowed"]:  # SECURITY: the view of its creator ended with the process, and another view could allow more
        return f"{ENDED_REASON}, and the restrictions of its tools are unknown"
    if row["state"] != JobState.STUCK:
        return ""
    if not resumable:
        return f"{ENDED_REASON}, and its runner cannot continue it"
    return f"it was stuck more than {MAX_REPAIRS} times" if row["repairs"] >= MAX_REPAIRS else ""


def delete_oldest(db: Connection, user: str) -> None:
    """Delete the user's oldest finished jobs beyond the limit, before a new job is added."""
    last = "SELECT number FROM finished WHERE user = ? ORDER BY number DESC LIMIT 1 OFFSET ?"
    query = f"SELECT id FROM finished WHERE user = ? AND number <= ({last})"  # noqa: S608 - a constant
    for (found,) in db.execute(query, (user, user, MAX_JOBS_PER_USER - 1)).fetchall():
        db.execute("DELETE FROM transitions WHERE job = ?", (found,))
        db.execute("DELETE FROM events WHERE job = ?", (found,))
        db.execute("DELETE FROM jobs WHERE id = ?", (found,))


def read_job(row: Any) -> Job:
    """Return the job of a row of the table `jobs`."""
    task = JobTask(row["title"], row["description"], row["context"], row["max_iterations"], row["project_dir"])
    return Job(
        id=row["id"],
        user=row["user"],
        task=task,
        mode=row["mode"],
        state=JobState(row["state"]),
        created_ms=row["created_ms"],
        started_ms=row["started_ms"],
        ended_ms=row["ended_ms"],
        repairs=row["repairs"],
        output=row["output"],
        cost=row["cost"],
        fallback=None if row["fallback"] is None else json.loads(row["fallback"]),
        labels=labels_from_text(row["labels"]),
    )


def labels_to_text(labels: Iterable[str] | None) -> str | None:
    """Return labels as text for a database row."""
    return None if labels is None else " ".join(sorted(labels))


def labels_from_text(labels: str | None) -> tuple[str, ...] | None:
    """Return the labels in the text of a database row."""
    return None if labels is None else tuple(labels.split())


def unusable_error(reason: str) -> ToolError:
    """Return the error for a store that cannot be used."""
    hint = "run wasmrt doctor; for a file, check the owner and permissions of jobs.sqlite3 in the data folder"
    return ToolError(f"the jobs cannot be used: {reason}", code="job-store", hint=hint)
