"""A table of requests that wait for an approver: it stores, expires, answers and lists requests.

There are two kinds of requests: to approve a call, and to add an entry to a tool's grant.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wasmrt.agent.approvals._owners import has_ended, this_process
from wasmrt.core.database import Connection, Store, open_store
from wasmrt.core.errors import ApprovalError
from wasmrt.core.limits import MAX_ANSWER_NOTE_BYTES, OWNER_LEASE_SECONDS, POSTGRES_NOW_MS

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

R = TypeVar("R")
Announce = Callable[[str], None] | None
"""A function that is called with the headline of each new request."""

LIST_HINT = "wasmrt approvals list shows the pending requests"
_VERSION = 2
_LEASES = "CREATE TABLE lease (owner TEXT PRIMARY KEY, until_ms INTEGER NOT NULL);"
PROCESS_ENDED = "the process that served its client has ended"
"""The note of a request that was withdrawn because its process has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKind(Generic[R]):
    """One kind of request: its database table and its rules. Every SQL fragment is a constant of this package."""

    store: str
    """Name of the store in a PostgreSQL database."""
    table: str
    schema: str
    view: Callable[[Any, int], R]
    """Converts a row to a request, at a time in Unix milliseconds. An overdue request is returned as expired."""
    expiring: str
    """SQL condition for rows that can expire or be withdrawn."""
    closed: str
    """SQL condition for rows that may be deleted to limit the size of the table."""
    cleared: tuple[str, ...] = ()
    """Columns that are set to NULL when a request ends."""
    closed_states: Mapping[str, tuple[str, str]]
    """For each state in which a request cannot be answered: the error code, and the end of the error message."""


class RequestTable(Generic[R]):
    """Requests of one kind in a store, for any number of threads, processes and, in PostgreSQL, hosts.

    Each change is one transaction. If a process is killed during a change, the change is either complete or absent.
    """

    def __init__(self, kind: RequestKind[R], place: Path | Postgres, *, now: Callable[[], float]) -> None:
        self.shared = not isinstance(place, Path)
        """True if processes of other hosts, which cannot be inspected from here, use the table."""
        schema = kind.schema + _LEASES if self.shared else kind.schema
        self.database: Store = open_store(place, kind.store, schema, _VERSION, unusable=unusable_error)
        self._kind = kind
        self._now = now
        self._renewing = 0
        """The process in which a thread renews the lease, or 0."""

    @property
    def exists(self) -> bool:
        """True if the database file has been created."""
        return self.database.exists

    def now_ms(self) -> int:
        """Return the time in Unix milliseconds."""
        return int(self._now() * 1000)

    @contextmanager
    def changing(self, *, scrub: bool = False) -> Iterator[Connection]:
        """Open a transaction for the block.

        Overdue requests expire first, and requests of processes that have ended are withdrawn. They stay ended even if
        the block fails.
        """
        while True:
            with self.database.writing(scrub=scrub) as db:
                expired = self.end(db, "expired", f"({self._kind.expiring}) AND expires_ms <= ?", self.now_ms())
                dead = self._list_dead_owners(db)
                if not expired + sum(self.withdraw(db, PROCESS_ENDED, "owner = ?", each) for each in dead):
                    yield db
                    return

    def insert(self, db: Connection, row: Mapping[str, Any], *, max_closed: int) -> None:
        """Add a request. If more than `max_closed` requests are closed, delete the oldest of them."""
        insert(db, self._kind.table, row)
        if self.shared and row["owner"]:
            self._hold_lease(db, row["owner"])
        table, closed = self._kind.table, self._kind.closed
        db.execute(
            f"DELETE FROM {table} WHERE ({closed}) AND id NOT IN "  # noqa: S608 - constants
            f"(SELECT id FROM {table} WHERE {closed} ORDER BY created_ms DESC LIMIT ?)",
            (max_closed,),
        )

    def update(self, db: Connection, request_id: str, values: Mapping[str, Any]) -> None:
        """Set columns of one request."""
        columns = ", ".join(f"{name} = ?" for name in values)
        sql = f"UPDATE {self._kind.table} SET {columns} WHERE id = ?"  # noqa: S608 - constants
        db.execute(sql, (*values.values(), request_id))

    def end(self, db: Connection, state: str, where: str, *values: object) -> int:
        """End the requests that match `where`, clear their private columns, and return their number."""
        columns = "".join(f", {name} = NULL" for name in self._kind.cleared)
        sql = f"UPDATE {self._kind.table} SET state = ?{columns} WHERE {where}"  # noqa: S608 - constants
        return db.execute(sql, (state, *values)).rowcount

    def withdraw(self, db: Connection, note: str, where: str, *values: object) -> int:
        """Withdraw the open requests that match `where`, with the reason as their note, and return their number."""
        chosen = f"({self._kind.expiring}) AND {where}"
        sql = f"UPDATE {self._kind.table} SET note = ? WHERE {chosen}"  # noqa: S608 - constants
        db.execute(sql, (note, *values))
        return self.end(db, "withdrawn", chosen, *values)

    def _list_dead_owners(self, db: Connection) -> list[str]:
        """Return the owners of open requests (processes) that have ended, or whose lease has ended."""
        table = self._kind.table
        sql = f"SELECT DISTINCT owner FROM {table} WHERE ({self._kind.expiring}) AND owner != ''"  # noqa: S608 - constants
        owners = [row[0] for row in db.execute(sql)]
        if not self.shared or not owners:
            return [owner for owner in owners if has_ended(owner)]
        # SECURITY: a host that lost its power or the network cannot apply an answer any more.
        held = {row[0] for row in db.execute(f"SELECT owner FROM lease WHERE until_ms > {POSTGRES_NOW_MS}")}  # noqa: S608 - a constant
        return [owner for owner in owners if owner not in held or has_ended(owner)]

    def _hold_lease(self, db: Connection, owner: str) -> None:
        """Hold a lease for the requests of this process, which a thread renews as long as one of them is open."""
        until = f"{POSTGRES_NOW_MS} + {int(OWNER_LEASE_SECONDS * 1000)}"
        sql = f"INSERT INTO lease VALUES (?, {until}) ON CONFLICT (owner) DO UPDATE SET until_ms = excluded.until_ms"  # noqa: S608 - constants
        db.execute(sql, (owner,))
        db.execute(f"DELETE FROM lease WHERE until_ms <= {POSTGRES_NOW_MS}")  # noqa: S608 - a constant
        if owner == this_process() and self._renewing != os.getpid():
            self._renewing = os.getpid()
            threading.Thread(target=self._renew_lease, args=(owner,), name="wasmrt-lease", daemon=True).start()

    def _renew_lease(self, owner: str) -> None:
        pause = threading.Event()
        is_open = f"SELECT 1 FROM {self._kind.table} WHERE ({self._kind.expiring}) AND owner = ?"  # noqa: S608 - constants
        while not pause.wait(OWNER_LEASE_SECONDS / 3):
            with suppress(ApprovalError), self.database.writing() as db:  # without the database, the lease ends
                if db.execute(is_open, (owner,)).fetchone() is None:
                    db.execute("DELETE FROM lease WHERE owner = ?", (owner,))
                    self._renewing = 0  # in the transaction: the next request starts another thread
                    return
                self._hold_lease(db, owner)

    def withdraw_orphans(self) -> None:
        """Withdraw the requests of processes that have ended."""
        if not self.exists:
            return
        with self.database.reading() as db:
            dead = self._list_dead_owners(db)
        if dead:
            with self.changing(scrub=True):
                pass  # opening the transaction withdraws them

    def row(self, db: Connection, request_id: str) -> Any:
        """Return the row of one request, or None if no request has this ID."""
        sql = f"SELECT * FROM {self._kind.table} WHERE id = ?"  # noqa: S608 - a constant
        found: Any = db.execute(sql, (request_id,)).fetchone()
        return found

    def get_answerable(self, db: Connection, request_id: str, user: str) -> R:
        """Return a pending request of a user.

        SECURITY: the user is checked before any other property of the request is reported.

        Raises:
            ApprovalError: no request has this ID, it belongs to another user, or it is not pending.
        """
        row = self.row(db, request_id)
        if row is None:
            raise unknown_request_error(request_id)
        if row["user"] != user:
            raise ApprovalError(
                f"{request_id} belongs to another user; nothing was changed", code="other-user",
                hint="pass the user of the call: --user NAME",
            )  # fmt: skip
        if row["state"] != "pending":
            raise self.closed_error(row)
        return self._kind.view(row, 0)  # as stored: overdue requests were expired when the transaction began

    def closed_error(self, row: Any) -> ApprovalError:
        """Return the error for a request that can no longer be answered, or whose answer can no longer be used."""
        code, end = self._kind.closed_states[row["state"]]
        return ApprovalError(f"{row['id']} {end}; nothing was changed", code=code, hint=LIST_HINT)

    def select(self, where: str, *values: object) -> list[R]:
        """Return the requests that match an SQL condition.

        Raises:
            ApprovalError: the file cannot be read.
        """
        if not self.exists:
            return []
        sql, now = f"SELECT * FROM {self._kind.table} WHERE {where}", self.now_ms()  # noqa: S608 - constants
        with self.database.reading() as db:
            return [self._kind.view(row, now) for row in db.execute(sql, values)]


class RequestStore(Generic[R]):
    """The queries that the stores of both kinds of requests share. Each raises `ApprovalError` if it cannot read."""

    _requests: RequestTable[R]

    def get(self, request_id: str) -> R | None:
        """Return one request in any state, or None if no request has this ID."""
        self._requests.withdraw_orphans()
        return next(iter(self._requests.select("id = ?", request_id)), None)

    def pending(self, user: str | None = None) -> list[R]:
        """Return the pending requests, oldest first; if `user` is None, the requests of all users."""
        self._requests.withdraw_orphans()
        where = "state = 'pending' AND expires_ms > ? AND user = coalesce(?, user) ORDER BY created_ms, id"
        return self._requests.select(where, self._requests.now_ms(), user)

    def decided(self, limit: int = 100) -> list[R]:
        """Return the requests that are no longer pending, latest first."""
        return self._requests.select("state != 'pending' ORDER BY created_ms DESC, id LIMIT ?", limit)


def insert(db: Connection, table: str, row: Mapping[str, Any]) -> None:
    """Insert a row into a table."""
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))  # noqa: S608 - constants


def short_note(text: str) -> str:
    """Return a note or a name, truncated to the maximum size that is stored."""
    return text.encode("utf-8", "replace")[:MAX_ANSWER_NOTE_BYTES].decode("utf-8", "ignore")


def unusable_error(reason: str) -> ApprovalError:
    """Return the error for a database that cannot be used."""
    return ApprovalError(
        f"cannot use the approvals database: {reason}",
        code="approval-store",
        hint="run wasmrt doctor; for a file, check its owner, its permissions and the free disk space",
    )


def unknown_request_error(request_id: str) -> ApprovalError:
    """Return the error for a request ID that does not exist."""
    return ApprovalError(
        f"no request has the ID {request_id!r:.40}; nothing was changed", code="unknown", hint=LIST_HINT
    )
