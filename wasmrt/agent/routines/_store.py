"""RoutineStore: routines, runs and claims in a private SQLite file, or in a database that hosts share.

SECURITY: a slot (a scheduled time, a webhook request, an event) is claimed in the transaction that inserts its run. The
key of a claim is unique. So a slot starts only one run, even if several processes and hosts try to claim the slot, or
if a process is restarted.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wasmrt.agent.routines._model import (
    CLAIM_SECONDS,
    MAX_DUE,
    MAX_ROUTINES_PER_USER,
    MAX_STORED_RUNS,
    MAX_SUMMARY_CHARS,
    SCHEDULED,
    Definition,
    Routine,
    Run,
    RunState,
    TriggerType,
    make_unusable_error,
    not_found,
)
from wasmrt.agent.routines._rows import (
    ENDED_WITH_PROCESS,
    ROUTINE,
    SCHEMA,
    VERSION,
    check_limits,
    read_routine,
    read_run,
    seconds_of_cooldown,
)
from wasmrt.agent.routines._schedule import Schedule, read_moment
from wasmrt.core.database import Connection, open_store, storable_text
from wasmrt.core.errors import CancelledError, InvalidParametersError
from wasmrt.core.leases import LEASE_SECONDS, WITHOUT_LEASE, Leases, end_lease

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres


class Trigger(NamedTuple):
    """The cause of a run."""

    kind: TriggerType
    slot: str
    """Identifies the cause. A slot starts at most one run of a routine."""
    detail: str = ""


class RoutineStore:
    """The routines of all users of an installation, for any number of threads, processes and, in PostgreSQL, hosts.

    Every method with a user reaches only the routines of that user.

    Raises:
        ConfigurationError: the file cannot be used (`routine-store`).
    """

    def __init__(
        self, path: Path | Postgres, *, now: Callable[[], float] | None = None, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self._database = open_store(path, "routines", SCHEMA, VERSION, unusable=make_unusable_error)
        clock = None if now is None else (lambda: int(now() * 1000))
        self.leases = Leases(self._database, seconds=lease_seconds, now=clock)

    def create(
        self, user: str, definition: Definition, *, approved: bool = False, labels: Iterable[str] | None = None
    ) -> Routine:
        """Store a new routine.

        Raises:
            InvalidParametersError: the name is taken, the user has too many routines, or the schedule is invalid.
        """
        made = secrets.token_hex(16)
        stored = None if labels is None else json.dumps(sorted(labels))
        with self._database.writing() as db:
            now = self.leases.now_ms(db)
            next_ms = _next_ms(definition, now)
            _check_next(definition, next_ms)
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
                    made, user, definition.name, definition.trigger_type, definition.as_json(), int(approved), stored,
                    now, next_ms,
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
        return self._select("user = ? AND trigger_type = ? AND enabled = 1 ORDER BY name", (user, trigger_type))

    def latest(self, limit: int) -> list[Routine]:
        """Return the routines of all users, for the operator. Those that run next come first."""
        return self._select("1 = 1 ORDER BY enabled DESC, next_ms IS NULL, next_ms, user, name LIMIT ?", (limit,))

    def due(self) -> list[Routine]:
        """Return the routines of all users whose next time has come, the longest overdue first."""
        if not self._database.exists:
            return []
        with self._database.reading() as db:
            values = self.leases.now_ms(db), MAX_DUE
            rows = db.execute(f"{ROUTINE} WHERE enabled = 1 AND next_ms <= ? ORDER BY next_ms LIMIT ?", values)
            return [read_routine(row) for row in rows.fetchall()]

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
        before = routine.definition
        with self._database.writing() as db:
            next_ms = _next_ms(definition, self.leases.now_ms(db))
            if (definition.at, definition.timezone) != (before.at, before.timezone):
                _check_next(definition, next_ms)
            changed = db.execute(
                "UPDATE routines SET definition = ?, enabled = ?, approved = ?, labels = ?, next_ms = ?"
                " WHERE id = ? AND definition = ?",
                (
                    definition.as_json(), int(enabled), int(approved), stored, next_ms, routine.id, before.as_json(),
                ),
            ).rowcount  # fmt: skip
        if not changed:
            raise not_found(routine.name)
        return self.get(routine.user, routine.name)

    def set_enabled(self, user: str, name: str, *, enabled: bool) -> Routine:
        """Enable or disable a routine, as its user decided.

        Raises:
            ToolError: there is none (`routine-not-found`).
        """
        found = self.get(user, name)
        return self.update(found, found.definition, enabled=enabled, approved=found.approved, labels=found.labels)

    def delete(self, user: str, name: str) -> None:
        """Delete a routine with its runs. A run that has not ended is cancelled.

        Raises:
            ToolError: there is none (`routine-not-found`).
        """
        found = self.get(user, name)
        with self._database.writing(scrub=True) as db:
            db.execute("DELETE FROM leases WHERE key IN (SELECT id FROM runs WHERE routine = ?)", (found.id,))
            for table, column in (("routines", "id"), ("runs", "routine"), ("claims", "routine")):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (found.id,))  # noqa: S608 - constants

    def history(self, user: str, name: str, limit: int) -> list[Run]:
        """Return the newest runs of a routine, newest first.

        Raises:
            ToolError: there is no such routine (`routine-not-found`).
        """
        found = self.get(user, name)
        with self._database.reading() as db:
            rows = db.execute(
                "SELECT * FROM runs WHERE routine = ? ORDER BY number DESC LIMIT ?", (found.id, limit)
            ).fetchall()
            return [read_run(row) for row in rows]

    def claim(self, routine: Routine, trigger: Trigger) -> Run | None:
        """Claim a slot and record its run, or return None if the slot was claimed before.

        Runs that a user starts by hand, and runs at the single time of a `once` trigger, ignore the cooldown. If a time
        of a cron expression is within the cooldown, it is skipped.

        Raises:
            FireRefusedError: the routine is disabled, in its cooldown, or running, or too many routines are running.
            ToolError: the routine was deleted (`routine-not-found`).
        """
        scheduled = trigger.kind in SCHEDULED
        with self._database.writing() as db:
            now = self.leases.now_ms(db)
            self._fail_runs_without_lease(db)
            row = db.execute(f"{ROUTINE} WHERE id = ?", (routine.id,)).fetchone()
            if row is None:
                raise not_found(routine.name)
            found = read_routine(row)
            if scheduled and found.next_ms != routine.next_ms:
                return None  # another process has claimed it, or the schedule was changed
            slot = (routine.id, trigger.slot)
            claimed = db.execute("SELECT 1 FROM claims WHERE routine = ? AND slot = ?", slot).fetchone() is not None
            unlimited = trigger.kind in (TriggerType.MANUAL, TriggerType.ONCE)
            cooling = 0 if unlimited else seconds_of_cooldown(found, now)
            # A scheduled time was claimed before if the clock was set back and the next time was computed again.
            if scheduled and (claimed or (found.enabled and cooling)):
                db.execute("UPDATE routines SET next_ms = ? WHERE id = ?", (_next_ms(found.definition, now), found.id))
            if claimed or (scheduled and found.enabled and cooling):
                return None
            check_limits(db, found, cooling)
            run = Run(
                secrets.token_hex(16), found.id, found.user, str(trigger.kind), storable_text(trigger.detail), now,
                None, RunState.RUNNING, "", None,
            )  # fmt: skip
            db.execute("INSERT INTO claims VALUES (?, ?, ?)", (*slot, now))
            db.execute("DELETE FROM claims WHERE at_ms < ?", (now - int(CLAIM_SECONDS * 1000),))
            db.execute(
                "INSERT INTO runs (id, routine, user, trigger_type, detail, digest, started_ms, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 'running')",
                (run.id, run.routine_id, run.user, run.trigger_type, run.detail, found.definition.digest, now),
            )
            self.leases.take(db, run.id, run.id)
            # SECURITY: after downtime the next time is later than now, so that missed times start one run together.
            next_ms = _next_ms(found.definition, now) if scheduled else found.next_ms
            db.execute(
                "UPDATE routines SET last_ms = ?, next_ms = ?, run_count = run_count + 1 WHERE id = ?",
                (now, next_ms, found.id),
            )
            return run

    def finish(self, run: Run, state: RunState, summary: str, *, tokens: int | None = None) -> None:
        """Record the result of a run. The oldest runs beyond the limit are deleted."""
        with self._database.writing() as db:
            self._finish_run(db, run.id, run.routine_id, state, summary, tokens)

    def check_lease(self, run: Run) -> None:
        """Check that a run has not ended.

        SECURITY: a process that was paused must not act for a run that counts as failed.

        Raises:
            CancelledError: the run's lease has ended.
        """
        with self._database.reading() as db:
            if not self.leases.is_held(db, run.id, run.id):
                raise CancelledError("the run has ended, because its process did not renew its lease")

    def recover(self) -> None:
        """Record the runs of ended processes as failed.

        A run is never repeated: its first part may have had side effects.
        """
        if not self._database.exists:
            return
        with self._database.reading() as db:
            if not self._list_runs_without_lease(db):
                return
        with self._database.writing() as db:
            self._fail_runs_without_lease(db)

    def _fail_runs_without_lease(self, db: Connection) -> None:
        for run_id, routine_id in self._list_runs_without_lease(db):
            self._finish_run(db, run_id, routine_id, RunState.FAILED, ENDED_WITH_PROCESS, None)

    def _list_runs_without_lease(self, db: Connection) -> list[tuple[str, str]]:
        """Return the IDs of running runs whose leases have ended, with their routines."""
        query = f"SELECT id, routine FROM runs WHERE state = 'running' AND {WITHOUT_LEASE}"  # noqa: S608 - a constant
        return [(run_id, routine_id) for run_id, routine_id in db.execute(query, (self.leases.now_ms(db),)).fetchall()]

    def _finish_run(
        self, db: Connection, run_id: str, routine_id: str, state: RunState, summary: str, tokens: int | None
    ) -> None:
        text = storable_text(summary[:MAX_SUMMARY_CHARS])
        end_lease(db, run_id)
        changed = db.execute(
            "UPDATE runs SET state = ?, summary = ?, tokens = ?, ended_ms = ? WHERE id = ? AND state = 'running'",
            (state, text, tokens, self.leases.now_ms(db), run_id),
        ).rowcount
        if not changed:  # it was deleted, or recorded as failed by another process
            return
        if state is RunState.FAILED:
            db.execute("UPDATE routines SET failures = failures + 1 WHERE id = ?", (routine_id,))
        else:
            db.execute(
                "UPDATE routines SET failures = 0, summary = ?, attention = ?,"
                " verified = (SELECT digest FROM runs WHERE runs.id = ?) WHERE id = ?",
                (text, int(state is RunState.ATTENTION), run_id, routine_id),
            )
        db.execute(
            "DELETE FROM runs WHERE routine = ? AND state != 'running' AND number <= (SELECT number FROM runs"
            " WHERE routine = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (routine_id, routine_id, MAX_STORED_RUNS),
        )

    def _select(self, condition: str, values: tuple[object, ...]) -> list[Routine]:
        if not self._database.exists:
            return []
        with self._database.reading() as db:
            return [read_routine(row) for row in db.execute(f"{ROUTINE} WHERE {condition}", values).fetchall()]


def _next_ms(definition: Definition, now_ms: int) -> int | None:
    """Return the next time of a scheduled routine in Unix milliseconds, or None if there is none."""
    moment, found = datetime.fromtimestamp(now_ms / 1000, UTC), None
    if definition.trigger_type is TriggerType.CRON:
        found = Schedule(definition.schedule, definition.timezone).find_next_after(moment)
    elif definition.trigger_type is TriggerType.ONCE:
        single = read_moment(definition.at, definition.timezone)
        found = single if single > moment else None
    return None if found is None else int(found.timestamp() * 1000)


def _check_next(definition: Definition, next_ms: int | None) -> None:
    """Check that the time of a new `once` trigger has not passed."""
    if definition.trigger_type is TriggerType.ONCE and next_ms is None:
        raise InvalidParametersError(f"at: expected a time in the future, got {definition.at}")
