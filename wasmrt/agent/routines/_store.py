"""RoutineStore: routines, runs and claims in one private SQLite file.

SECURITY: a slot (a scheduled time, a webhook request, an event) is claimed in the transaction that inserts its run. The
key of a claim is unique, so that a slot starts one run, whatever number of processes tries, and also after a restart.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from wasmrt.agent.approvals import has_ended, this_process
from wasmrt.agent.routines._model import (
    CLAIM_SECONDS,
    JOB_SECONDS,
    MAX_DUE,
    MAX_ROUTINES_PER_USER,
    MAX_RUNS_AT_ONCE,
    MAX_STORED_RUNS,
    MAX_SUMMARY_CHARS,
    Definition,
    FireRefusedError,
    Routine,
    Run,
    RunState,
    TriggerType,
    not_found,
    unusable,
)
from wasmrt.agent.routines._schedule import Schedule
from wasmrt.core.database import Database
from wasmrt.core.errors import InvalidParametersError

_SCHEMA = """
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
    ended_ms INTEGER, state TEXT NOT NULL, summary TEXT NOT NULL DEFAULT '', tokens INTEGER, owner TEXT NOT NULL
);
CREATE INDEX runs_routine ON runs (routine, number);
CREATE INDEX runs_state ON runs (state);
CREATE TABLE claims (
    routine TEXT NOT NULL, slot TEXT NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (routine, slot)
) WITHOUT ROWID;
"""
_VERSION = 1
_ROUTINE = (
    "SELECT *, EXISTS (SELECT 1 FROM runs WHERE routine = routines.id AND state = 'running') AS running FROM routines"
)
_PROCESS_ENDED = "the process that ran it has ended"


class Trigger(NamedTuple):
    """The cause of a run."""

    kind: TriggerType
    slot: str
    """Identifies the cause: the same slot of a routine never starts a second run."""
    detail: str = ""


class RoutineStore:
    """The routines of all users of an installation, for any number of threads and processes.

    Every method with a user reaches only the routines of that user.

    Raises:
        ConfigurationError: the file cannot be used (`routine-store`).
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._database = Database(path, _SCHEMA, _VERSION, unusable=unusable)
        self._now = now

    def create(
        self, user: str, definition: Definition, *, approved: bool = False, labels: Iterable[str] | None = None
    ) -> Routine:
        """Store a new routine.

        Raises:
            InvalidParametersError: the name is taken, the user has too many routines, or the schedule is invalid.
        """
        now, made = self._now_ms(), secrets.token_hex(16)
        next_ms = self._next_ms(definition)
        stored = None if labels is None else json.dumps(sorted(labels))
        with self._writing() as db:
            if db.execute("SELECT 1 FROM routines WHERE user = ? AND name = ?", (user, definition.name)).fetchone():
                raise InvalidParametersError(f"routine {definition.name!r} already exists; use routine_update")
            if (
                db.execute("SELECT count(*) FROM routines WHERE user = ?", (user,)).fetchone()[0]
                >= MAX_ROUTINES_PER_USER
            ):
                raise InvalidParametersError(f"there are already {MAX_ROUTINES_PER_USER} routines; delete one first")
            db.execute(
                "INSERT INTO routines (id, user, name, trigger_type, definition, enabled, approved, labels, created_ms,"
                " next_ms) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?)",
                (
                    made, user, definition.name, definition.trigger_type, definition.as_json(), approved, stored, now,
                    next_ms,
                ),
            )  # fmt: skip
        return self.get(user, definition.name)

    def get(self, user: str, name: str) -> Routine:
        """Return the routine of a user with this name.

        Raises:
            ToolError: there is none (`routine-not-found`).
        """
        found = self._select("user = ? AND name = ?", (user, name))
        if not found:
            raise not_found(name)
        return found[0]

    def find(self, routine_id: str) -> Routine | None:
        """Return the routine with an ID, of any user, or None."""
        return next(iter(self._select("id = ?", (routine_id,))), None)

    def routines(self, user: str, trigger_type: TriggerType | None = None) -> list[Routine]:
        """Return the routines of a user by name; with a trigger type, only those that have it and are enabled."""
        if trigger_type is None:
            return self._select("user = ? ORDER BY name", (user,))
        return self._select("user = ? AND trigger_type = ? AND enabled ORDER BY name", (user, trigger_type))

    def due(self) -> list[Routine]:
        """Return the routines of all users whose next time has come, the longest overdue first."""
        return self._select("enabled AND next_ms <= ? ORDER BY next_ms LIMIT ?", (self._now_ms(), MAX_DUE))

    def update(
        self, routine: Routine, definition: Definition, *, enabled: bool, approved: bool,
        labels: Iterable[str] | None = None,
    ) -> Routine:  # fmt: skip
        """Replace the definition of a routine, and enable or disable it.

        Raises:
            ToolError: the routine was deleted or changed since it was read.
            InvalidParametersError: the schedule is invalid.
        """
        stored = None if labels is None else json.dumps(sorted(labels))
        with self._writing() as db:
            changed = db.execute(
                "UPDATE routines SET definition = ?, enabled = ?, approved = ?, labels = ?, next_ms = ?"
                " WHERE id = ? AND definition = ?",
                (
                    definition.as_json(), enabled, approved, stored, self._next_ms(definition), routine.id,
                    routine.definition.as_json(),
                ),
            ).rowcount  # fmt: skip
        if not changed:
            raise not_found(routine.name)
        return self.get(routine.user, routine.name)

    def delete(self, user: str, name: str) -> None:
        """Delete a routine with its runs.

        Raises:
            ToolError: there is none (`routine-not-found`).
        """
        found = self.get(user, name)
        with self._writing(scrub=True) as db:
            for table, column in (("routines", "id"), ("runs", "routine"), ("claims", "routine")):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (found.id,))  # noqa: S608 - constants

    def history(self, user: str, name: str, limit: int) -> list[Run]:
        """Return the newest runs of a routine, newest first.

        Raises:
            ToolError: there is no such routine (`routine-not-found`).
        """
        found = self.get(user, name)
        with self._database.reading() as db:
            db.row_factory = sqlite3.Row
            rows = db.execute(
                "SELECT * FROM runs WHERE routine = ? ORDER BY number DESC LIMIT ?", (found.id, limit)
            ).fetchall()
            return [_run_of(row) for row in rows]

    def claim(self, routine: Routine, trigger: Trigger) -> Run | None:
        """Claim a slot and record its run, or return None if the slot was claimed before.

        A manual run ignores the cooldown. A scheduled time within the cooldown is skipped.

        Raises:
            FireRefusedError: the routine is disabled, in its cooldown, or running, or too many routines are running.
            ToolError: the routine was deleted (`routine-not-found`).
        """
        now, scheduled = self._now_ms(), trigger.kind is TriggerType.CRON
        with self._writing() as db:
            row = db.execute(f"{_ROUTINE} WHERE id = ?", (routine.id,)).fetchone()
            if row is None:
                raise not_found(routine.name)
            found = _routine_of(row)
            slot = (routine.id, trigger.slot)
            if db.execute("SELECT 1 FROM claims WHERE routine = ? AND slot = ?", slot).fetchone():
                return None
            if scheduled and found.next_ms != routine.next_ms:
                return None  # another process has claimed it, or the schedule was changed
            cooling = _seconds_of_cooldown(found, now) if trigger.kind is not TriggerType.MANUAL else 0
            if found.enabled and cooling and scheduled:
                db.execute("UPDATE routines SET next_ms = ? WHERE id = ?", (self._next_ms(found.definition), found.id))
                return None
            _check_limits(db, found, cooling)
            run = Run(
                secrets.token_hex(16), found.id, found.user, str(trigger.kind), trigger.detail, now, None,
                RunState.RUNNING, "", None,
            )  # fmt: skip
            db.execute("INSERT INTO claims VALUES (?, ?, ?)", (*slot, now))
            db.execute("DELETE FROM claims WHERE at_ms < ?", (now - int(CLAIM_SECONDS * 1000),))
            db.execute(
                "INSERT INTO runs (id, routine, user, trigger_type, detail, digest, started_ms, state, owner)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?)",
                (
                    run.id, run.routine_id, run.user, run.trigger_type, run.detail, found.definition.digest, now,
                    this_process(),
                ),
            )  # fmt: skip
            # SECURITY: after downtime the next time is later than now, so that missed times start one run together.
            next_ms = self._next_ms(found.definition) if scheduled else found.next_ms
            db.execute(
                "UPDATE routines SET last_ms = ?, next_ms = ?, run_count = run_count + 1 WHERE id = ?",
                (now, next_ms, found.id),
            )
            return run

    def finish(self, run: Run, state: RunState, summary: str, *, tokens: int | None = None) -> None:
        """Record the result of a run. The oldest runs beyond the limit are deleted."""
        with self._writing() as db:
            self._finish(db, run.id, run.routine_id, state, summary, tokens)

    def recover(self) -> None:
        """Record the runs of ended processes as failed.

        A run is never repeated: its first part may have had side effects.
        """
        if self._database.status() is None:
            return
        with self._database.reading() as db:
            running = db.execute("SELECT id, routine, owner, started_ms FROM runs WHERE state = 'running'").fetchall()
        oldest = self._now_ms() - int((JOB_SECONDS + 60) * 1000)
        ended = [each for each in running if has_ended(each[2]) or each[3] < oldest]
        if ended:
            with self._writing() as db:
                for run_id, routine_id, _, _ in ended:
                    self._finish(db, run_id, routine_id, RunState.FAILED, _PROCESS_ENDED, None)

    def _finish(
        self, db: sqlite3.Connection, run_id: str, routine_id: str, state: RunState, summary: str, tokens: int | None
    ) -> None:
        text = summary[:MAX_SUMMARY_CHARS]
        changed = db.execute(
            "UPDATE runs SET state = ?, summary = ?, tokens = ?, ended_ms = ? WHERE id = ? AND state = 'running'",
            (state, text, tokens, self._now_ms(), run_id),
        ).rowcount
        if not changed:  # it was deleted, or recorded as failed by another process
            return
        if state is RunState.FAILED:
            db.execute("UPDATE routines SET failures = failures + 1 WHERE id = ?", (routine_id,))
        else:
            db.execute(
                "UPDATE routines SET failures = 0, summary = ?, attention = ?,"
                " verified = (SELECT digest FROM runs WHERE runs.id = ?) WHERE id = ?",
                (text, state is RunState.ATTENTION, run_id, routine_id),
            )
        db.execute(
            "DELETE FROM runs WHERE routine = ? AND state != 'running' AND number <= (SELECT number FROM runs"
            " WHERE routine = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (routine_id, routine_id, MAX_STORED_RUNS),
        )

    def _select(self, condition: str, values: tuple[object, ...]) -> list[Routine]:
        if self._database.status() is None:
            return []
        with self._database.reading() as db:
            db.row_factory = sqlite3.Row
            return [_routine_of(row) for row in db.execute(f"{_ROUTINE} WHERE {condition}", values).fetchall()]

    @contextmanager
    def _writing(self, *, scrub: bool = False) -> Iterator[sqlite3.Connection]:
        with self._database.writing(scrub=scrub) as db:
            db.row_factory = sqlite3.Row
            yield db

    def _next_ms(self, definition: Definition) -> int | None:
        if definition.trigger_type is not TriggerType.CRON:
            return None
        schedule = Schedule(definition.schedule, definition.timezone)
        found = schedule.next_after(datetime.fromtimestamp(self._now(), UTC))
        return None if found is None else int(found.timestamp() * 1000)

    def _now_ms(self) -> int:
        return int(self._now() * 1000)


def _seconds_of_cooldown(routine: Routine, now_ms: int) -> int:
    """Return the seconds until the cooldown of a routine ends, 0 if it has ended."""
    if routine.last_ms is None:
        return 0
    return max(0, -(-(routine.last_ms + routine.definition.cooldown_secs * 1000 - now_ms) // 1000))


def _check_limits(db: sqlite3.Connection, routine: Routine, cooling: int) -> None:
    """Raise the reason why a routine cannot be started now."""
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


def _routine_of(row: sqlite3.Row) -> Routine:
    definition = Definition.from_json(row["definition"])
    return Routine(
        id=row["id"], user=row["user"], definition=definition, enabled=bool(row["enabled"]),
        approved=bool(row["approved"]), labels=None if row["labels"] is None else tuple(json.loads(row["labels"])),
        created_ms=row["created_ms"], next_ms=row["next_ms"], last_ms=row["last_ms"], run_count=row["run_count"],
        consecutive_failures=row["failures"], running=bool(row["running"]),
        verified=row["verified"] == definition.digest, last_summary=row["summary"],
        needs_attention=bool(row["attention"]),
    )  # fmt: skip


def _run_of(row: sqlite3.Row) -> Run:
    return Run(
        row["id"], row["routine"], row["user"], row["trigger_type"], row["detail"], row["started_ms"], row["ended_ms"],
        RunState(row["state"]), row["summary"], row["tokens"],
    )  # fmt: skip
