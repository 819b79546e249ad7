"""The store of approvals: the requests that wait for another process's answer, and the answers that hold always."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from wasmrt.agent.approvals._failure import LIST_HINT, check_user, closed_request, unknown_request, unusable
from wasmrt.agent.approvals._mirror import Mirror
from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest, ApprovalScope
from wasmrt.agent.approvals._remembered import Remembered
from wasmrt.agent.approvals._rows import (
    SCHEMA,
    VERSION,
    QueuedRequest,
    State,
    answer_of,
    queued,
    remembered_of,
    remembered_row,
    request_row,
    short_note,
)
from wasmrt.core.database import Database
from wasmrt.core.errors import ApprovalError
from wasmrt.core.limits import (
    MAX_APPROVAL_BYTES,
    MAX_DECIDED_APPROVALS,
    MAX_PENDING_APPROVAL_BYTES,
    MAX_PENDING_APPROVALS,
    MAX_REMEMBERED_ANSWERS,
)

T = TypeVar("T")
_CLOSED = {
    State.ANSWERED: "was answered already",
    State.USED: "was answered already",
    State.WITHDRAWN: "was withdrawn: nobody waits for the answer any more",
    State.OUTDATED: "is for a tool that was updated meanwhile",
    State.EXPIRED: "has expired",
}
_OPEN = "state IN ('pending', 'answered')"
_EMPTIED = "params = NULL, preview = NULL, edited = NULL"


class ApprovalStore:
    """One SQLite file of an installation, for any number of threads and processes.

    Every change is one transaction. A process that is killed leaves it done or not done; an answer is used once.

    Example:
        >>> from pathlib import Path
        >>> from wasmrt import ApprovalStore
        >>> store = ApprovalStore(Path("approvals.db"))
        >>> store.pending()
        []
        >>> store.close()
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._database = Database(path, SCHEMA, VERSION, unusable=unusable)
        self._mirror = Mirror(self._database)
        self._now = now

    # Remembered answers.

    def remembered(self, request: ApprovalRequest) -> Remembered | None:
        """Return the answer of scope `always` that holds for a request.

        Raises:
            ApprovalError: the store cannot be read.
        """
        return self._mirror.find(request)

    def remember(self, answer: Remembered) -> None:
        """Keep an answer; one with the same binding is replaced.

        Raises:
            ApprovalError: there are too many, or the store cannot be written.
        """
        with self._database.writing() as db:
            _insert_answer(db, answer)

    def answers(self) -> list[Remembered]:
        """Return the remembered answers, the oldest first.

        Raises:
            ApprovalError: the store cannot be read.
        """
        return self._read(remembered_of, "SELECT * FROM answer ORDER BY made_ms, id")

    def forget(self, answer_id: str) -> bool:
        """Forget a remembered answer, in every process at once; return whether there was one.

        Raises:
            ApprovalError: the store cannot be written.
        """
        return self._forget("DELETE FROM answer WHERE id = ?", answer_id) > 0

    def forget_all(self, user: str | None = None) -> int:
        """Forget every remembered answer, or those for one user; return how many there were.

        Raises:
            ApprovalError: the store cannot be written.
        """
        if user is None:
            return self._forget("DELETE FROM answer")
        return self._forget("DELETE FROM answer WHERE user = ?", user)

    # Requests that wait.

    def add(self, request: ApprovalRequest) -> None:
        """Put a request into the queue. One that is there already stays, for a caller that was ended and asks again.

        Raises:
            ApprovalError: it was answered or withdrawn before, its id is another's, it is too large, or the queue is
                full.
        """
        row = request_row(request)
        if row["size"] > MAX_APPROVAL_BYTES:
            raise ApprovalError(
                f"the request is over {MAX_APPROVAL_BYTES:,} bytes and cannot wait in the queue", code="too-large"
            )
        with self._changing() as db:
            found = _row(db, request.id)
            if found is None:
                _insert_request(db, row)
            elif found["fingerprint"] != row["fingerprint"]:
                raise ApprovalError("another request has this id", code="id-taken")
            elif found["state"] not in (State.PENDING, State.ANSWERED):
                raise _closed(found)

    def take(self, request_id: str) -> ApprovalAnswer | None:
        """Return the answer to a request and use it up, or None while there is none.

        Raises:
            ApprovalError: it was used, withdrawn, outdated, or has expired.
        """
        with self._changing(scrub=True) as db:
            row = _row(db, request_id)
            if row is None:
                raise unknown_request(request_id)
            if row["state"] == State.PENDING:
                return None
            if row["state"] != State.ANSWERED:
                raise _closed(row)
            _end(db, State.USED, "id = ?", request_id)
            return answer_of(row)

    def state(self, request_id: str) -> State | None:
        """Return the state of a request, or None where there is none with this id.

        Raises:
            ApprovalError: the store cannot be read.
        """
        found = self._read(lambda row: State(row["state"]), "SELECT state FROM request WHERE id = ?", request_id)
        return found[0] if found else None

    def version(self) -> tuple[int, ...]:
        """Return numbers that are others after every change of the store, by whichever process.

        Raises:
            ApprovalError: the store cannot be read.
        """
        return self._mirror.version()

    def withdraw(self, request_id: str) -> None:
        """End a request that nobody waits for any more.

        Raises:
            ApprovalError: the store cannot be written.
        """
        with self._changing(scrub=True) as db:
            _end(db, State.WITHDRAWN, "id = ?", request_id)

    def tool_changed(self, tool: str, *, digest: str, grant: str) -> None:
        """End the requests for another version or grant of a tool, answered or not.

        Raises:
            ApprovalError: the store cannot be written.
        """
        if self._database.status() is not None:
            with self._changing(scrub=True) as db:
                _end(db, State.OUTDATED, "tool = ? AND (digest, granted) != (?, ?)", tool, digest, grant)

    # What people do.

    def answer(self, request_id: str, answer: ApprovalAnswer, *, user: str) -> None:
        """Answer a request on behalf of the user whose call it is; one of scope `always` is remembered with it.

        Raises:
            ApprovalError: nothing was changed, because there is no such request, it is another user's, it was answered,
                withdrawn or outdated, it has expired, or the answer cannot be remembered as it should.
        """
        with self._changing(scrub=True) as db:
            row = _row(db, request_id)
            if row is None:
                raise unknown_request(request_id)
            check_user(request_id, row["user"], user)
            if row["state"] != State.PENDING:
                raise _closed(row)
            request = queued(row).request
            if answer.scope is not ApprovalScope.ONCE:
                _check_memorable(request, answer.scope)
            if answer.scope is ApprovalScope.ALWAYS:
                _insert_answer(db, Remembered.of(request, answer, now_ms=self._now_ms()))
            edited = None if answer.params is None else json.dumps(answer.params, ensure_ascii=False)
            db.execute(
                "UPDATE request SET state = 'answered', params = NULL, preview = NULL, approved = ?, scope = ?, "
                "answered_by = ?, note = ?, edited = ?, decided_ms = ? WHERE id = ?",
                (
                    *(answer.approved, answer.scope, short_note(answer.by), short_note(answer.note)),
                    *(edited, self._now_ms(), request_id),
                ),
            )

    def get(self, request_id: str) -> QueuedRequest | None:
        """Return one request, whatever its state.

        Raises:
            ApprovalError: the store cannot be read.
        """
        found = self._read(self._queued, "SELECT * FROM request WHERE id = ?", request_id)
        return found[0] if found else None

    def pending(self, user: str | None = None) -> list[QueuedRequest]:
        """Return the requests that wait, of one user or of all, the oldest first.

        Raises:
            ApprovalError: the store cannot be read.
        """
        found = self._read(self._queued, "SELECT * FROM request WHERE state = 'pending' ORDER BY created_ms, id")
        return [q for q in found if q.state is State.PENDING and user in (None, q.user)]

    def decided(self, limit: int = 100) -> list[QueuedRequest]:
        """Return the requests that were answered or ended otherwise, the latest first.

        Raises:
            ApprovalError: the store cannot be read.
        """
        sql = "SELECT * FROM request WHERE state != 'pending' ORDER BY created_ms DESC, id LIMIT ?"
        return self._read(self._queued, sql, limit)

    def close(self) -> None:
        """Close the connection that reading keeps open; the store can be used on."""
        self._mirror.close()

    @contextmanager
    def _changing(self, *, scrub: bool = False) -> Iterator[sqlite3.Connection]:
        """Open a transaction; what has expired until now is ended before it, whatever becomes of it."""
        with self._database.writing(scrub=scrub) as db:
            db.row_factory = sqlite3.Row
            _end(db, State.EXPIRED, "expires_ms <= ?", self._now_ms())
            db.execute("COMMIT")
            db.execute("BEGIN IMMEDIATE")
            yield db

    def _forget(self, sql: str, *values: str) -> int:
        if self._database.status() is None:
            return 0
        with self._database.writing(scrub=True) as db:
            forgotten = db.execute(sql, values).rowcount
            _count(db)
            return forgotten

    def _read(self, convert: Callable[[sqlite3.Row], T], sql: str, *values: object) -> list[T]:
        if self._database.status() is None:
            return []
        with self._database.reading() as db:
            db.row_factory = sqlite3.Row
            return [convert(row) for row in db.execute(sql, values)]

    def _queued(self, row: sqlite3.Row) -> QueuedRequest:
        found = queued(row)
        overdue = found.expires_ms <= self._now_ms() and found.state in (State.PENDING, State.ANSWERED)
        return (
            replace(found, state=State.EXPIRED, params=None, preview=None, provenance=(), destinations=())
            if overdue
            else found
        )

    def _now_ms(self) -> int:
        return int(self._now() * 1000)


def _row(db: sqlite3.Connection, request_id: str) -> sqlite3.Row | None:
    found: sqlite3.Row | None = db.execute("SELECT * FROM request WHERE id = ?", (request_id,)).fetchone()
    return found


def _insert_request(db: sqlite3.Connection, row: dict[str, Any]) -> None:
    count, size = db.execute(f"SELECT count(*), total(size) FROM request WHERE {_OPEN}").fetchone()  # noqa: S608 - ours
    if count >= MAX_PENDING_APPROVALS or size + row["size"] > MAX_PENDING_APPROVAL_BYTES:
        raise ApprovalError("too many requests wait for an approval", code="queue-full", hint=LIST_HINT)
    _insert(db, "request", row)
    db.execute(
        f"DELETE FROM request WHERE NOT {_OPEN} AND id NOT IN "  # noqa: S608 - ours
        f"(SELECT id FROM request WHERE NOT {_OPEN} ORDER BY created_ms DESC LIMIT ?)",
        (MAX_DECIDED_APPROVALS,),
    )


def _insert_answer(db: sqlite3.Connection, answer: Remembered) -> None:
    row = remembered_row(answer)
    db.execute("DELETE FROM answer WHERE binding = ?", (row["binding"],))
    if db.execute("SELECT count(*) FROM answer").fetchone()[0] >= MAX_REMEMBERED_ANSWERS:
        raise ApprovalError(
            f"{MAX_REMEMBERED_ANSWERS:,} answers are remembered already",
            code="too-many-answers",
            hint="forget those that nobody needs: wasmrt approvals forget ID",
        )
    _insert(db, "answer", row)
    _count(db)


def _insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names, values = ", ".join(row), ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", tuple(row.values()))  # noqa: S608 - names of ours


def _count(db: sqlite3.Connection) -> None:
    """Have every process read the remembered answers again."""
    db.execute("UPDATE counter SET value = value + 1 WHERE name = 'answers'")


def _end(db: sqlite3.Connection, state: State, where: str, *values: object) -> None:
    """End the open requests that `where` selects, and delete their parameters."""
    sql = f"UPDATE request SET state = ?, {_EMPTIED} WHERE {_OPEN} AND {where}"  # noqa: S608 - parts of ours
    db.execute(sql, (state, *values))


def _check_memorable(request: ApprovalRequest, scope: ApprovalScope) -> None:
    if not request.may_be_remembered or (scope is ApprovalScope.SESSION and not request.trace):
        what = "session" if request.may_be_remembered else "digest"
        raise ApprovalError(
            f"an answer to {request.id} cannot be remembered: the call has no {what} to bind it to",
            code="not-memorable",
            hint=f"answer this call alone: wasmrt approvals approve {request.id}",
        )


def _closed(row: sqlite3.Row) -> ApprovalError:
    state = State(row["state"])
    code = "answered" if state is State.USED else str(state)
    return closed_request(row["id"], code, _CLOSED[state])
