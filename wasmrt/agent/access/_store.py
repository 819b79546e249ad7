"""AccessStore: the access requests of an installation, in one SQLite file for any number of threads and processes."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from wasmrt.agent.access._model import AccessRequest, AccessScope, AccessState, Caller, Wish
from wasmrt.agent.access._rows import SCHEMA, VERSION, granted_text, request_of, row_of
from wasmrt.agent.approvals import check_user, closed_request, new_request_id, short_note, unknown_request, unusable
from wasmrt.capabilities import covers
from wasmrt.core.database import Database
from wasmrt.core.limits import (
    ACCESS_ONCE_SECONDS,
    ACCESS_REQUEST_SECONDS,
    MAX_ACCESS_PER_TOOL,
    MAX_ACCESS_PER_USER,
    MAX_DECIDED_ACCESS,
    MAX_PENDING_ACCESS,
)
from wasmrt.core.model import Addition

_ENDED = {
    AccessState.OUTDATED: "is for a tool or a grant that changed meanwhile",
    AccessState.EXPIRED: "has expired",
}


class AccessStore:
    """The access requests that wait, and the answers that hold for calls.

    Every change is one transaction: an answer that holds once is used once, by whichever process.

    Example:
        >>> from pathlib import Path
        >>> from wasmrt import AccessStore
        >>> AccessStore(Path("access.db")).pending()
        []
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._database = Database(path, SCHEMA, VERSION, unusable=unusable)
        self._now = now
        self._read_before: tuple[Trace | None, dict[tuple[str, str], list[AccessRequest]]] = (None, {})
        """The answers for a user and a tool, as they were when the file had this trace: every call asks for them."""

    # What a call does.

    def ask(self, caller: Caller, wish: Wish) -> AccessRequest | None:
        """Ask a person for one entry more; return the request that waits for it.

        A wish that one covers which waits already is counted to that. None where a person has said no, or where too
        many wait: then it is a denial, and nobody is asked.

        Raises:
            ApprovalError: the store cannot be written.
        """
        with self._changing() as db:
            for row in db.execute(
                "SELECT * FROM access WHERE user = ? AND tool = ? AND digest = ? AND state IN ('pending', 'denied')",
                (caller.user, caller.tool, caller.digest),
            ).fetchall():
                known = request_of(row)
                if known.state is AccessState.DENIED and _is_denied(known, caller, wish):
                    return None
                if known.state is AccessState.PENDING and _is_same(known, caller, wish):
                    db.execute("UPDATE access SET asked = asked + 1 WHERE id = ?", (known.id,))
                    return replace(known, asked=known.asked + 1)
            if _is_full(db, caller):
                return None
            now = self._now_ms()
            made = AccessRequest(
                id=new_request_id(), state=AccessState.PENDING, caller=caller, wish=wish, asked=1, created_ms=now,
                expires_ms=now + int(ACCESS_REQUEST_SECONDS * 1000),
            )  # fmt: skip
            row_values = row_of(made)
            names, marks = ", ".join(row_values), ", ".join("?" * len(row_values))
            db.execute(f"INSERT INTO access ({names}) VALUES ({marks})", tuple(row_values.values()))  # noqa: S608 - ours
            _forget_old(db)
            return made

    def granted(self, caller: Caller) -> tuple[AccessRequest, ...]:
        """Return the answers that hold for a call: of those that are kept, the ones that its own program asked for.

        Raises:
            ApprovalError: the store cannot be read.
        """
        return tuple(each for each in self.answers(caller.user, caller.tool) if _holds(each, caller, self._now_ms()))

    def answers(self, user: str, tool: str) -> Sequence[AccessRequest]:
        """Return the granted requests of a user for a tool, whatever call each holds for; most have none.

        Raises:
            ApprovalError: the store cannot be read.
        """
        status = self._database.status()
        if status is None:
            return ()
        trace, (seen, read) = _trace(self._database.path, status), self._read_before
        if trace is None or trace != seen:
            self._read_before = seen, read = trace, {}
        found = read.get((user, tool))
        if found is None:
            sql = "SELECT * FROM access WHERE user = ? AND tool = ? AND state = 'granted'"
            found = read[user, tool] = self._read(sql, user, tool)
        return found

    def use(self, request: AccessRequest) -> bool:
        """Use up an answer that holds once; tell whether it was still there to be used.

        Raises:
            ApprovalError: the store cannot be written.
        """
        if request.scope is not AccessScope.ONCE:
            return True
        with self._changing() as db:
            sql = "UPDATE access SET state = 'used' WHERE id = ? AND state = 'granted'"
            return db.execute(sql, (request.id,)).rowcount == 1

    def end_session(self, session: str, user: str, trace: str) -> None:
        """End what holds for one conversation of a user in a program.

        Raises:
            ApprovalError: the store cannot be written.
        """
        if self._database.status() is not None:
            with self._changing() as db:
                db.execute(
                    "UPDATE access SET state = 'expired' WHERE session = ? AND user = ? AND trace = ? "
                    "AND scope = 'session' AND state = 'granted'",
                    (session, user, trace),
                )

    # What people do.

    @contextmanager
    def answering(self, request_id: str, *, user: str) -> Iterator[tuple[AccessRequest, Settle]]:
        """Open the transaction of an answer; nobody else can answer meanwhile. It is kept if the block ends well.

        Raises:
            ApprovalError: there is no such request, it is another user's, or it has ended.
        """
        with self._changing() as db:
            row = db.execute("SELECT * FROM access WHERE id = ?", (request_id,)).fetchone()
            if row is None:
                raise unknown_request(request_id)
            request = request_of(row)
            check_user(request_id, request.caller.user, user)
            if (state := request.state) is not AccessState.PENDING:
                words = _ENDED.get(state, "was answered already")
                raise closed_request(request_id, str(state) if state in _ENDED else "answered", words)

            def settle(
                state: AccessState, scope: AccessScope, granted: Addition | None = None, *, by: str, note: str
            ) -> None:
                now = self._now_ms()
                until = now + int(ACCESS_ONCE_SECONDS * 1000) if scope is AccessScope.ONCE else request.expires_ms
                db.execute(
                    "UPDATE access SET state = ?, scope = ?, granted = ?, answered_by = ?, note = ?, decided_ms = ?, "
                    "expires_ms = ? WHERE id = ?",
                    (state, scope, granted_text(granted), short_note(by), short_note(note), now, until, request_id),
                )
                if granted is not None and scope is AccessScope.KEEP:  # the others are for the grant before it
                    outdated = "UPDATE access SET state = 'outdated' WHERE state = 'pending' AND digest = ?"
                    db.execute(outdated, (request.caller.digest,))

            yield request, settle

    def outdate(self, request_id: str) -> None:
        """End a request for a tool or a grant that changed.

        Raises:
            ApprovalError: the store cannot be written.
        """
        with self._changing() as db:
            db.execute("UPDATE access SET state = 'outdated' WHERE id = ? AND state = 'pending'", (request_id,))

    def get(self, request_id: str) -> AccessRequest | None:
        """Return one request, whatever its state.

        Raises:
            ApprovalError: the store cannot be read.
        """
        return next(iter(self._read("SELECT * FROM access WHERE id = ?", request_id)), None)

    def pending(self, user: str | None = None) -> list[AccessRequest]:
        """Return the requests that wait, of one user or of all, the oldest first.

        Raises:
            ApprovalError: the store cannot be read.
        """
        found = self._read("SELECT * FROM access WHERE state = 'pending' ORDER BY created_ms, id")
        return [each for each in found if each.state is AccessState.PENDING and user in (None, each.caller.user)]

    def decided(self, limit: int = 100) -> list[AccessRequest]:
        """Return the requests that were answered or ended otherwise, the latest first.

        Raises:
            ApprovalError: the store cannot be read.
        """
        return self._read("SELECT * FROM access WHERE state != 'pending' ORDER BY created_ms DESC, id LIMIT ?", limit)

    def refused(self, user: str | None = None) -> list[AccessRequest]:
        """Return what was denied for good, of one user or of all, the oldest first: it is not asked for again.

        Raises:
            ApprovalError: the store cannot be read.
        """
        found = self._read("SELECT * FROM access WHERE state = 'denied' AND scope = 'keep' ORDER BY created_ms, id")
        return [each for each in found if user in (None, each.caller.user)]

    def forget(self, request_id: str) -> bool:
        """Forget a denial that holds for good, so that it is asked for again; tell whether it was there.

        Raises:
            ApprovalError: the store cannot be written.
        """
        return self._forget("id = ?", request_id) > 0

    def forget_all(self) -> int:
        """Forget every denial that holds for good; return how many there were.

        Raises:
            ApprovalError: the store cannot be written.
        """
        return self._forget("1")

    def _forget(self, which: str, *values: str) -> int:
        if self._database.status() is None:
            return 0
        with self._changing() as db:
            sql = f"DELETE FROM access WHERE state = 'denied' AND scope = 'keep' AND {which}"  # noqa: S608 - ours
            return db.execute(sql, values).rowcount

    def _read(self, sql: str, *values: object) -> list[AccessRequest]:
        if self._database.status() is None:
            return []
        with self._database.reading() as db:
            db.row_factory = sqlite3.Row
            found = [request_of(row) for row in db.execute(sql, values)]
        now = self._now_ms()
        return [replace(each, state=AccessState.EXPIRED) if _is_over(each, now) else each for each in found]

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction, and end in it what has expired until now."""
        with self._database.writing() as db:
            db.row_factory = sqlite3.Row
            db.execute(
                "UPDATE access SET state = 'expired' WHERE expires_ms <= ? "
                "AND (state = 'pending' OR (state = 'granted' AND scope = 'once'))",
                (self._now_ms(),),
            )
            yield db

    def _now_ms(self) -> int:
        return int(self._now() * 1000)


Trace = tuple[tuple[int, int, int], ...]
_RACY_SECONDS = 0.1


def _trace(path: Path, status: os.stat_result) -> Trace | None:
    """Return numbers that differ after a change of the file; None where it changed so lately that they may not.

    SECURITY: the clock of a file system ticks in milliseconds. Within a tick a second change could go unnoticed.
    """
    found = [status]
    with suppress(FileNotFoundError):
        found.append(path.with_name(f"{path.name}-wal").stat())
    if time.time_ns() - max(each.st_mtime_ns for each in found) <= _RACY_SECONDS * 1e9:
        return None
    return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)


Settle = Callable[..., None]
"""Puts an answer down: state, scope, the entry that is granted, `by` and `note`."""


def _is_over(request: AccessRequest, now_ms: int) -> bool:
    open_ = request.state is AccessState.PENDING or (
        request.state is AccessState.GRANTED and request.scope is AccessScope.ONCE
    )
    return open_ and request.expires_ms <= now_ms


def _holds(request: AccessRequest, caller: Caller, now_ms: int) -> bool:
    """Tell whether an answer is for a call.

    SECURITY: of the answers for a user and a tool, it is one for these bytes and this grant, as the person was told.
    """
    own = request.caller
    if (own.digest, own.grant) != (caller.digest, caller.grant):
        return False
    match request.scope:
        case AccessScope.ONCE:
            same = (own.trace, own.params_digest) == (caller.trace, caller.params_digest)
            return same and request.expires_ms > now_ms
        case AccessScope.SESSION:
            return (own.session, own.trace) == (caller.session, caller.trace) and caller.trace != ""
    return own.session == caller.session


def _is_denied(known: AccessRequest, caller: Caller, wish: Wish) -> bool:
    """Tell whether a person has said no to this: for good, or in this conversation."""
    here = (known.caller.session, known.caller.trace) == (caller.session, caller.trace)
    return (known.scope is AccessScope.KEEP or here) and covers(known.wish.addition, wish.addition)


def _is_same(known: AccessRequest, caller: Caller, wish: Wish) -> bool:
    same = (known.caller.trace, known.caller.grant) == (caller.trace, caller.grant)
    return same and known.wish.again == wish.again and covers(known.wish.addition, wish.addition)


def _is_full(db: sqlite3.Connection, caller: Caller) -> bool:
    """Tell whether nobody is asked more. SECURITY: each no counts too, or a tool would ask until somebody says yes."""
    waiting = "SELECT count(*) FROM access WHERE (state = 'pending'"
    refused = f"{waiting} OR state = 'denied' AND session = ? AND trace = ?) AND user = ? AND tool = ?"
    counts: tuple[tuple[str, tuple[str, ...], int], ...] = (
        (f"{waiting})", (), MAX_PENDING_ACCESS),
        (f"{waiting}) AND user = ?", (caller.user,), MAX_ACCESS_PER_USER),
        (refused, (caller.session, caller.trace, caller.user, caller.tool), MAX_ACCESS_PER_TOOL),
    )
    return any(db.execute(sql, values).fetchone()[0] >= limit for sql, values, limit in counts)


def _forget_old(db: sqlite3.Connection) -> None:
    """Keep the latest of those that have ended. SECURITY: a no that holds for good is not pushed out."""
    over = "state != 'pending' AND NOT (state = 'denied' AND scope = 'keep')"
    db.execute(
        f"DELETE FROM access WHERE ({over}) AND id NOT IN "  # noqa: S608 - ours
        f"(SELECT id FROM access WHERE {over} ORDER BY created_ms DESC LIMIT ?)",
        (MAX_DECIDED_ACCESS,),
    )
