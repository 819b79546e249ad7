"""Leases: at most one process runs a job, a routine or a program, and every machine notices when a process ends.

A run takes a lease in the transaction that starts it, and renews it while it runs. The lease of a killed process ends,
also after a reboot and on another host, where process IDs have no meaning. Each store has the
same table of leases.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from wasmrt.core.database import Connection, Store
from wasmrt.core.errors import WasmrtError
from wasmrt.core.lifetime import Lifetime

LEASE_SECONDS = 30.0
LEASES_TABLE = """
CREATE TABLE leases (key TEXT PRIMARY KEY, owner TEXT NOT NULL, ends_ms INTEGER NOT NULL) WITHOUT ROWID;
"""
"""The key is the ID of a job or of a routine's run. The owner is the random name of the run that holds the lease."""
WITHOUT_LEASE = "id NOT IN (SELECT key FROM leases WHERE ends_ms >= ?)"
"""SQL condition for rows whose run no longer holds a lease. Its parameter is the current time in Unix milliseconds."""
_TAKE = (
    "INSERT INTO leases VALUES (?, ?, ?)"
    " ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, ends_ms = excluded.ends_ms"
)
_POLL_SECONDS = 0.25
"""The time between two checks whether another process ended a run."""


def now_ms() -> int:
    """Return the time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


class Leases:
    """The leases in a store. The methods with a connection are part of the caller's transaction.

    SECURITY: all hosts use the clock of the store. By its own clock, a host could take a lease that has not ended.
    """

    def __init__(
        self, database: Store, *, seconds: float = LEASE_SECONDS, now: Callable[[], int] | None = None
    ) -> None:
        """`now` replaces the clock in tests; it returns Unix milliseconds."""
        self.seconds = seconds
        self._database = database
        self._now = now

    def take(self, db: Connection, key: str, owner: str) -> None:
        """Give the lease of a key to an owner."""
        db.execute(_TAKE, (key, owner, self._end_ms(db)))

    def is_held(self, db: Connection, key: str, owner: str) -> bool:
        """Return whether the owner holds the lease of a key."""
        query = "SELECT 1 FROM leases WHERE key = ? AND owner = ? AND ends_ms >= ?"
        return db.execute(query, (key, owner, self.now_ms(db))).fetchone() is not None

    def renew(self, owners: Iterable[str]) -> set[str]:
        """Extend the leases of owners, and return the owners that may continue."""
        # SECURITY: a lease that has ended is not renewed, because another process may be about to take it.
        update = "UPDATE leases SET ends_ms = ? WHERE owner = ? AND ends_ms >= ?"
        with self._database.writing() as db:
            ends, now = self._end_ms(db), self.now_ms(db)
            return {owner for owner in owners if db.execute(update, (ends, owner, now)).rowcount == 1}

    def owners(self) -> set[str]:
        """Return the owners of all leases, in any process."""
        with self._database.reading() as db:
            return {owner for (owner,) in db.execute("SELECT owner FROM leases")}

    def now_ms(self, db: Connection) -> int:
        """Return the current time in Unix milliseconds by the clock that all leases use: the store's."""
        return self._database.now_ms(db) if self._now is None else self._now()

    def _end_ms(self, db: Connection) -> int:
        return self.now_ms(db) + round(self.seconds * 1000)


def end_lease(db: Connection, key: str) -> None:
    """End the lease of a key, if there is one."""
    db.execute("DELETE FROM leases WHERE key = ?", (key,))


class LeaseKeeper:
    """Renews the leases of this process's runs in a thread, and cancels each run that has lost its lease.

    `runs` returns the lifetimes of the runs by owner. `look` is called before each poll and, while there
    are no runs, every `idle_seconds`.
    """

    def __init__(
        self, leases: Leases, runs: Callable[[], Mapping[str, Lifetime]], *, look: Callable[[], None] = lambda: None,
        idle_seconds: float | None = None,
    ) -> None:  # fmt: skip
        self._leases, self._runs, self._look, self._idle_seconds = leases, runs, look, idle_seconds
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._renewed = 0.0

    def wake(self) -> None:
        """Start the thread if it is not running, and let it look for new runs."""
        with self._lock:
            if not self._closed and (self._thread is None or not self._thread.is_alive()):
                self._renewed = time.monotonic()
                self._thread = threading.Thread(target=self._watch, name="wasmrt-leases", daemon=True)
                self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """End the thread. The caller ends the runs."""
        with self._lock:
            self._closed = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _watch(self) -> None:
        while not self._closed:
            self._wake.wait(_POLL_SECONDS if self._runs() else self._idle_seconds)
            self._wake.clear()
            try:
                self._look()
                self._renew()
            except WasmrtError:  # the store cannot be used now
                self._cancel_unrenewed()

    def _renew(self) -> None:
        now = time.monotonic()
        runs = self._runs()  # before the query, which does not know runs that start meanwhile
        due = not runs or now - self._renewed > self._leases.seconds / 3
        if runs:
            held = self._leases.renew(runs) if due else self._leases.owners()
            for owner in runs.keys() - held:
                runs[owner].cancel()
        if due:
            self._renewed = now

    def _cancel_unrenewed(self) -> None:
        """Cancel all runs if their leases could not be renewed in time."""
        if time.monotonic() - self._renewed > self._leases.seconds:
            for lifetime in self._runs().values():
                lifetime.cancel()
