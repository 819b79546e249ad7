"""The schema of the stored routines, and the functions that read rows and check the limits within a transaction."""

from __future__ import annotations

import json
from shlex import quote
from typing import Any

from wasmrt.agent.routines._model import MAX_RUNS_AT_ONCE, Definition, FireRefusedError, Routine, Run, RunState
from wasmrt.core.database import Connection
from wasmrt.core.leases import LEASES_TABLE

_TABLES = """
CREATE TABLE routines (
    id TEXT PRIMARY KEY, user TEXT NOT NULL, name TEXT NOT NULL, trigger_type TEXT NOT NULL, definition TEXT NOT NULL,
    enabled INTEGER NOT NULL, approved INTEGER NOT NULL, labels TEXT, created_ms INTEGER NOT NULL, next_ms INTEGER,
    last_ms INTEGER, run_count INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
    verified TEXT NOT NULL DEFAULT '', summary TEXT NOT NULL DEFAULT '', attention INTEGER NOT NULL DEFAULT 0,
    UNIQUE (user, name)
) WITHOUT ROWID;
CREATE INDEX routines_due ON routines (enabled, next_ms);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, routine TEXT NOT NULL, user TEXT NOT NULL,
    trigger_type TEXT NOT NULL, detail TEXT NOT NULL, digest TEXT NOT NULL, started_ms INTEGER NOT NULL,
    ended_ms INTEGER, state TEXT NOT NULL, summary TEXT NOT NULL DEFAULT '', tokens INTEGER
);
CREATE INDEX runs_routine ON runs (routine, number);
CREATE INDEX runs_state ON runs (state);
CREATE TABLE claims (
    routine TEXT NOT NULL, slot TEXT NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (routine, slot)
) WITHOUT ROWID;
"""
SCHEMA = _TABLES + LEASES_TABLE
VERSION = 2
ROUTINE = (
    "SELECT *, EXISTS (SELECT 1 FROM runs WHERE routine = routines.id AND state = 'running') AS running FROM routines"
)
ENDED_WITH_PROCESS = "the process that ran it has ended"


def seconds_of_cooldown(routine: Routine, now_ms: int) -> int:
    """Return the seconds until the cooldown of a routine ends, 0 if it has ended."""
    if routine.last_ms is None:
        return 0
    return max(0, -(-(routine.last_ms + routine.definition.cooldown_secs * 1000 - now_ms) // 1000))


def check_limits(db: Connection, routine: Routine, cooling: int) -> None:
    """Check that a routine can be started now, and raise a `FireRefusedError` with the reason if not."""
    name = routine.name
    if not routine.enabled:
        hint = f"resume it: wasmrt routines resume {quote(name)}"
        raise FireRefusedError(f"routine {name!r} is disabled", code="routine-disabled", hint=hint)
    if cooling:
        message = f"routine {name!r} is in its cooldown for {cooling} more seconds"
        raise FireRefusedError(
            message, code="routine-cooldown", hint="wait, or run it by hand: wasmrt routines run NAME"
        )
    if routine.running:
        raise FireRefusedError(f"routine {name!r} is running already", hint="wait until its run has ended")
    if db.execute("SELECT count(*) FROM runs WHERE state = 'running'").fetchone()[0] >= MAX_RUNS_AT_ONCE:
        raise FireRefusedError(f"{MAX_RUNS_AT_ONCE} routines are running already", hint="wait until one has ended")


def read_routine(row: Any) -> Routine:
    """Return the routine of a row of the query `ROUTINE`."""
    definition = Definition.from_json(row["definition"])
    return Routine(
        id=row["id"], user=row["user"], definition=definition, enabled=bool(row["enabled"]),
        approved=bool(row["approved"]), labels=None if row["labels"] is None else tuple(json.loads(row["labels"])),
        created_ms=row["created_ms"], next_ms=row["next_ms"], last_ms=row["last_ms"], run_count=row["run_count"],
        consecutive_failures=row["failures"], running=bool(row["running"]),
        verified=row["verified"] == definition.digest, last_summary=row["summary"],
        needs_attention=bool(row["attention"]),
    )  # fmt: skip


def read_run(row: Any) -> Run:
    """Return the run of a row of the table `runs`."""
    return Run(
        row["id"], row["routine"], row["user"], row["trigger_type"], row["detail"], row["started_ms"], row["ended_ms"],
        RunState(row["state"]), row["summary"], row["tokens"],
    )  # fmt: skip
