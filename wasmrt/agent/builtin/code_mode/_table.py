"""The journals of suspended programs in a database that several hosts share. A lease replaces the lock of a file."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from wasmrt.agent.builtin.code_mode._journal import (
    MAX_JOURNAL_BYTES,
    USER_CHARS,
    active_error,
    too_many_error,
    unusable_error,
)
from wasmrt.core.database import Connection, Store
from wasmrt.core.errors import RunReplayError
from wasmrt.core.leases import LEASE_SECONDS, LEASES_TABLE, WITHOUT_LEASE, Leases, end_lease
from wasmrt.core.limits import CODE_RUN_SECONDS, MAX_CODE_RUNS

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

_SCHEMA = f"""
CREATE TABLE runs (id TEXT PRIMARY KEY, owner TEXT NOT NULL, changed_ms INTEGER NOT NULL);
CREATE INDEX runs_of_owner ON runs (owner);
CREATE TABLE lines (number INTEGER PRIMARY KEY, run TEXT NOT NULL, line TEXT NOT NULL);
CREATE INDEX lines_of_run ON lines (run, number);
{LEASES_TABLE}
"""
_HELD = f"SELECT NOT ({WITHOUT_LEASE}) FROM runs WHERE id = ?"  # noqa: S608 - a constant


class JournalTable:
    """Journals in a PostgreSQL database. A journal whose process has died can be taken when its lease ends."""

    def __init__(self, place: Postgres, lease_seconds: float = LEASE_SECONDS) -> None:
        self.database: Store = place.open("programs", _SCHEMA, 1, unusable=unusable_error)
        self.leases = Leases(self.database, seconds=lease_seconds)
        self._lock = threading.Lock()
        self._held: set[str] = set()
        self._thread: threading.Thread | None = None

    def hold(self, owner: str) -> None:
        """Renew the leases of an owner from now on. If a lease is lost, the next `append` fails."""
        with self._lock:
            self._held.add(owner)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._renew, name="wasmrt-programs", daemon=True)
                self._thread.start()

    def release(self, owner: str) -> None:
        """Stop renewing the leases of an owner."""
        with self._lock:
            self._held.discard(owner)

    def _renew(self) -> None:
        """Renew the leases of this process until it holds none."""
        pause = threading.Event()
        while not pause.wait(self.leases.seconds / 3):
            with self._lock:
                held = set(self._held)
                if not held:
                    self._thread = None
                    return
            with suppress(RunReplayError):  # without the database, the leases end
                self.leases.renew(held)

    def journal(self, name: str) -> JournalRows:
        """Return the journal with a name, whether or not it is stored."""
        return JournalRows(self, name)

    def forget_expired(self) -> None:
        """Delete the journals that have not changed for a long time, and that no process holds."""
        expired = f"SELECT id FROM runs WHERE changed_ms < ? AND {WITHOUT_LEASE}"  # noqa: S608 - a constant
        with self.database.reading() as db:
            now = self.leases.now_ms(db)
            if db.execute(expired, (now - CODE_RUN_SECONDS * 1000, now)).fetchone() is None:
                return
        with self.database.writing() as db:
            for (name,) in db.execute(expired, (now - CODE_RUN_SECONDS * 1000, now)).fetchall():
                _delete(db, name)

    def read_all(self) -> Iterator[tuple[str, bytes | None, int]]:
        """Yield the name of each journal, its lines, and its last change in Unix milliseconds."""
        with self.database.reading() as db:
            for name, changed_ms in db.execute("SELECT id, changed_ms FROM runs").fetchall():
                yield name, _read(db, name), changed_ms

    def drop(self, name: str) -> bool:
        """Delete a journal that no process holds; return whether it existed."""
        with self.database.writing() as db:
            held = db.execute(_HELD, (self.leases.now_ms(db), name)).fetchone()
            if held is not None and held[0]:
                raise active_error()
            _delete(db, name)
            return held is not None


class JournalRows:
    """A journal in rows, held by a lease with a random name."""

    def __init__(self, table: JournalTable, name: str) -> None:
        self._table = table
        self._name = name
        self._owner = ""

    def open(self) -> bytes | None:
        """Take the lease and return the lines, or None if the run is not stored."""
        with self._table.database.reading() as db:
            if db.execute("SELECT 1 FROM runs WHERE id = ?", (self._name,)).fetchone() is None:
                return None
        with self._table.database.writing() as db:
            held = db.execute(_HELD, (self._table.leases.now_ms(db), self._name)).fetchone()
            if held is None:
                return None
            if held[0]:
                raise active_error()
            self._take(db)
            data = _read(db, self._name)
        self._table.hold(self._owner)
        return data

    def create(self, data: bytes) -> None:
        """Insert the first lines, and take the lease."""
        user = self._name[:USER_CHARS]
        with self._table.database.writing() as db:
            if db.execute("SELECT 1 FROM runs WHERE id = ?", (self._name,)).fetchone() is not None:
                raise active_error()
            if db.execute("SELECT count(*) FROM runs WHERE owner = ?", (user,)).fetchone()[0] >= MAX_CODE_RUNS:
                raise too_many_error()
            db.execute("INSERT INTO runs VALUES (?, ?, ?)", (self._name, user, self._table.leases.now_ms(db)))
            db.execute("INSERT INTO lines (run, line) VALUES (?, ?)", (self._name, data.decode()))
            self._take(db)
        self._table.hold(self._owner)

    def append(self, line: bytes) -> None:
        """Insert a line.

        SECURITY: a host that lost the lease must not continue, because another host may make the same calls now.
        """
        with self._table.database.writing() as db:
            if not self._table.leases.is_held(db, self._name, self._owner):
                raise RunReplayError(
                    "the program continues on another host", code="run-under-way", hint="wait until it has ended"
                )
            db.execute("INSERT INTO lines (run, line) VALUES (?, ?)", (self._name, line.decode()))
            db.execute("UPDATE runs SET changed_ms = ? WHERE id = ?", (self._table.leases.now_ms(db), self._name))

    def remove(self) -> None:
        """Delete the rows if no other host has taken the run."""
        if not self._owner:
            return
        with self._table.database.writing() as db:
            if self._table.leases.is_held(db, self._name, self._owner):
                _delete(db, self._name)

    def close(self) -> None:
        """End the lease."""
        if self._owner:
            owner, self._owner = self._owner, ""
            self._table.release(owner)
            with suppress(RunReplayError), self._table.database.writing() as db:  # otherwise, the lease ends later
                db.execute("DELETE FROM leases WHERE key = ? AND owner = ?", (self._name, owner))

    def _take(self, db: Connection) -> None:
        self._owner = secrets.token_hex(16)
        self._table.leases.take(db, self._name, self._owner)


def _read(db: Connection, name: str) -> bytes:
    lines = db.execute("SELECT line FROM lines WHERE run = ? ORDER BY number", (name,))
    return "".join(line for (line,) in lines).encode()[: MAX_JOURNAL_BYTES + 1]


def _delete(db: Connection, name: str) -> None:
    db.execute("DELETE FROM lines WHERE run = ?", (name,))
    db.execute("DELETE FROM runs WHERE id = ?", (name,))
    end_lease(db, name)
