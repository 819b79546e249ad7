"""The store of approval requests that another process answers, and of remembered answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from wasmrt.agent.approvals._known_hosts import KnownHosts
from wasmrt.agent.approvals._model import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovalScope,
    QueuedRequest,
    State,
    params_digest,
)
from wasmrt.agent.approvals._owners import current_user_name, this_process
from wasmrt.agent.approvals._remembered import (
    Mirror,
    Remembered,
    SharedMirror,
    encode_effects,
    increment_counter,
    insert_answer,
    remembered_of,
)
from wasmrt.agent.approvals._requests import (
    LIST_HINT,
    Announce,
    RequestKind,
    RequestStore,
    RequestTable,
    short_note,
    unknown_request_error,
)
from wasmrt.agent.approvals._sessions import SessionAnswers
from wasmrt.agent.approvals._summary import headline_text
from wasmrt.capabilities import find_kind
from wasmrt.core.database import Connection, Database, storable_text
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ApprovalError
from wasmrt.core.limits import (
    MAX_APPROVAL_BYTES,
    MAX_DECIDED_APPROVALS,
    MAX_PENDING_APPROVAL_BYTES,
    MAX_PENDING_APPROVALS,
)
from wasmrt.core.model import Addition, Decision, Reason, Step
from wasmrt.core.strict_json import parse_json

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

_SCHEMA = """
CREATE TABLE request (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, user TEXT NOT NULL, tool TEXT NOT NULL, digest TEXT NOT NULL,
    granted TEXT NOT NULL, trace TEXT NOT NULL, call TEXT NOT NULL, risk TEXT NOT NULL, effects TEXT NOT NULL,
    why TEXT NOT NULL, params_digest TEXT NOT NULL, fingerprint TEXT NOT NULL, created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL, size INTEGER NOT NULL, approved INTEGER, scope TEXT, answered_by TEXT, note TEXT,
    decided_ms INTEGER, params TEXT, preview TEXT, edited TEXT, client TEXT NOT NULL, owner TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX request_state ON request (state, created_ms);
CREATE TABLE answer (
    id TEXT PRIMARY KEY, binding TEXT NOT NULL UNIQUE, approved INTEGER NOT NULL, user TEXT NOT NULL,
    tool TEXT NOT NULL, digest TEXT NOT NULL, granted TEXT NOT NULL, asked TEXT NOT NULL, effects TEXT NOT NULL,
    pattern TEXT NOT NULL, answered_by TEXT NOT NULL, note TEXT NOT NULL, made_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('answers', 0);
"""
_OPEN = "state IN ('pending', 'answered')"


class ApprovalStore(RequestStore[QueuedRequest]):
    """The approval requests of an installation in one SQLite file, or of several hosts in a PostgreSQL database.

    Each change is one transaction. If a process is killed during a change, the change is either complete or absent. The
    answer to a request is used at most once.

    Examples:
        >>> from pathlib import Path
        >>> from wasmrt import ApprovalStore
        >>> store = ApprovalStore(Path("approvals.db"))
        >>> store.pending()
        []
        >>> store.close()
    """

    def __init__(
        self, path: Path | Postgres, *, now: Callable[[], float] = time.time, announce: Announce = None
    ) -> None:
        self._requests = RequestTable(_CALL, path, now=now)
        self._announce = announce
        database = self._requests.database
        self.hosts = KnownHosts(database)
        """The hosts to which calls were approved."""
        self.sessions = None if isinstance(path, Path) else SessionAnswers(path)
        """Answers for the rest of a session; None if processes do not share sessions."""
        self._mirror = Mirror(database) if isinstance(database, Database) else SharedMirror(database)

    @property
    def is_shared(self) -> bool:
        """True if each query waits for a server."""
        return self._requests.shared

    # Remembered answers.

    def remembered(self, request: ApprovalRequest) -> Remembered | None:
        """Return the remembered answer that applies to a request, or None.

        Raises:
            ApprovalError: the store cannot be read.
        """
        return self._mirror.find(request)

    def remember(self, answer: Remembered) -> None:
        """Store a remembered answer. It replaces an answer with the same binding.

        Raises:
            ApprovalError: too many answers are stored, or the store cannot be written.
        """
        with self._requests.database.writing() as db:
            insert_answer(db, answer)

    def answers(self) -> list[Remembered]:
        """Return the remembered answers, oldest first.

        Raises:
            ApprovalError: the store cannot be read.
        """
        if not self._requests.exists:
            return []
        with self._requests.database.reading() as db:
            return [remembered_of(row) for row in db.execute("SELECT * FROM answer ORDER BY made_ms, id")]

    def forget(self, answer_id: str) -> bool:
        """Delete a remembered answer, for all processes; return whether it existed.

        Raises:
            ApprovalError: the store cannot be written.
        """
        return self._forget("id = ?", answer_id) > 0

    def forget_all(self, user: str | None = None) -> int:
        """Delete the remembered answers of one user, or of all users if `user` is None; return their number.

        Raises:
            ApprovalError: the store cannot be written.
        """
        return self._forget("user = coalesce(?, user)", user)

    def _forget(self, where: str, value: str | None) -> int:
        if not self._requests.exists:
            return 0
        with self._requests.database.writing(scrub=True) as db:
            # SECURITY: a call that used the remembered answer left the answer of its request unused.
            of_them = f"(user, tool, digest, granted) IN (SELECT user, tool, digest, granted FROM answer WHERE {where})"  # noqa: S608 - constants
            self._requests.end(db, State.WITHDRAWN, f"state = 'answered' AND scope = 'always' AND {of_them}", value)
            deleted = db.execute(f"DELETE FROM answer WHERE {where}", (value,)).rowcount  # noqa: S608 - constants
            increment_counter(db)
            return deleted

    # Requests of callers.

    def add(self, request: ApprovalRequest) -> None:
        """Add a request. If the same request is already stored and open, its restarted caller continues to wait for it.

        A request of a client ends with this process, which is the only one that could return the answer to the client.

        Raises:
            ApprovalError: the request has already ended, a different request has its ID, the request is too large, or
                the queue is full.
        """
        row = _request_row(request, this_process() if request.client else "")
        with self._requests.changing() as db:
            found = self._requests.row(db, request.id)
            if found is None:
                self._insert(db, row)
            elif found["fingerprint"] != row["fingerprint"]:
                raise ApprovalError("a different request has this ID", code="id-taken")
            elif found["state"] not in (State.PENDING, State.ANSWERED):
                raise self._requests.closed_error(found)
        if found is None:
            self._announce_new(request)

    def join(self, request: ApprovalRequest) -> ApprovalRequest:
        """Add a request that any process may continue. If an equal one of the same conversation is open, return that.

        SECURITY: the returned request differs from the given one only in its ID, its call and its times.

        Raises:
            ApprovalError: the request is too large, or the queue is full.
        """
        row = _request_row(request, "")
        same = f"SELECT * FROM request WHERE {_OPEN} AND owner = '' AND client = ? AND fingerprint = ?"  # noqa: S608 - a constant
        with self._requests.changing() as db:
            found = db.execute(same, (request.client, row["fingerprint"])).fetchone()
            if found is None:
                self._insert(db, row)
        if found is None:
            self._announce_new(request)
            return request
        return replace(request, **{name: found[name] for name in ("id", "call", "created_ms", "expires_ms")})

    def _announce_new(self, request: ApprovalRequest) -> None:
        if self._announce is not None:
            self._announce(headline_text(request))

    def _insert(self, db: Connection, row: dict[str, Any]) -> None:
        if row["size"] > MAX_APPROVAL_BYTES:
            problem = f"cannot queue the request: expected at most {MAX_APPROVAL_BYTES:,} bytes, got {row['size']:,}"
            raise ApprovalError(problem, code="too-large")
        count, total = db.execute(f"SELECT count(*), coalesce(sum(size), 0) FROM request WHERE {_OPEN}").fetchone()  # noqa: S608 - a constant
        if count >= MAX_PENDING_APPROVALS or total + row["size"] > MAX_PENDING_APPROVAL_BYTES:
            raise ApprovalError("too many requests are waiting for approval", code="queue-full", hint=LIST_HINT)
        self._requests.insert(db, row, max_closed=MAX_DECIDED_APPROVALS)

    def take(self, request_id: str) -> ApprovalAnswer | None:
        """Return the answer to a request and mark the answer as used; return None if the request is pending.

        Raises:
            ApprovalError: the request does not exist, its answer was used, or it was withdrawn, is outdated or has
                expired.
        """
        with self._requests.changing(scrub=True) as db:
            row = self._requests.row(db, request_id)
            if row is None:
                raise unknown_request_error(request_id)
            if row["state"] == State.PENDING:
                return None
            if row["state"] != State.ANSWERED:
                raise self._requests.closed_error(row)
            self._requests.end(db, State.USED, "id = ?", request_id)
            return _read_answer(row)

    def state(self, request_id: str) -> State | None:
        """Return the stored state of a request, or None if no request has this ID.

        Raises:
            ApprovalError: the store cannot be read.
        """
        if not self._requests.exists:
            return None
        with self._requests.database.reading() as db:
            found = db.execute("SELECT state FROM request WHERE id = ?", (request_id,)).fetchone()
            return None if found is None else State(found[0])

    def version(self) -> tuple[int, ...]:
        """Return numbers that differ after every change of the store, by any process.

        Raises:
            ApprovalError: the store cannot be read.
        """
        return self._mirror.version()

    def withdraw(self, request_id: str, note: str = "") -> None:
        """End a request whose caller no longer waits. `note` is the reason, for the list of ended requests.

        Raises:
            ApprovalError: the store cannot be written.
        """
        with self._requests.changing(scrub=True) as db:
            self._requests.withdraw(db, short_note(note), "id = ?", request_id)

    def tool_changed(self, tool: str, *, digest: str, grant: str) -> None:
        """End the requests for another version or grant of a tool, whether or not they were answered.

        Raises:
            ApprovalError: the store cannot be written.
        """
        if self._requests.exists:
            with self._requests.changing(scrub=True) as db:
                where = f"{_OPEN} AND tool = ? AND (digest, granted) != (?, ?)"
                self._requests.end(db, State.OUTDATED, where, tool, digest, grant)

    # Answers and lists.

    def answer(self, request_id: str, answer: ApprovalAnswer, *, user: str) -> None:
        """Answer a request on behalf of the user of its call. An answer of scope `always` is also remembered.

        Raises:
            ApprovalError: no request has this ID, the request belongs to another user or is not pending, or the answer
                cannot be remembered although its scope requires that. Nothing was changed.
        """
        answer = replace(answer, by=answer.by or current_user_name())
        with self._requests.changing(scrub=True) as db:
            request = self._requests.get_answerable(db, request_id, user).request
            now = self._requests.now_ms()
            if answer.scope is not ApprovalScope.ONCE:
                _check_memorable(request, answer.scope)
            if answer.scope is ApprovalScope.ALWAYS:
                insert_answer(db, Remembered.of(request, answer, now_ms=now))
            values = {
                "state": State.ANSWERED, "params": None, "preview": None, "approved": int(answer.approved),
                "scope": answer.scope, "answered_by": short_note(answer.by), "note": short_note(answer.note),
                "edited": None if answer.params is None else json.dumps(answer.params, ensure_ascii=False),
                "decided_ms": now,
            }  # fmt: skip
            self._requests.update(db, request_id, values)

    def close(self) -> None:
        """Close the connection that stays open for reading. The store can still be used; it then opens a new one."""
        self._mirror.close()


def _check_memorable(request: ApprovalRequest, scope: ApprovalScope) -> None:
    if not request.may_be_remembered or (scope is ApprovalScope.SESSION and not request.trace):
        missing = "session" if request.may_be_remembered else "digest"
        raise ApprovalError(
            f"cannot remember an answer to {request.id}: the call has no {missing} to bind the answer to",
            code="not-memorable",
            hint=f"approve only this call: wasmrt approvals approve {request.id}",
        )


def _request_row(request: ApprovalRequest, owner: str) -> dict[str, Any]:
    """Return the columns of a new request, which ends with the process `owner`, if any."""
    flow = (request.provenance, request.destinations, request.new_hosts)
    # With flow lines or hosts, the column contains a list: it is cleared as a whole when the request is answered.
    params = json.dumps([request.params, *flow] if any(flow) else request.params, ensure_ascii=False)
    row: dict[str, Any] = {
        "user": request.user, "tool": request.tool, "digest": request.digest, "granted": request.grant,
        "trace": request.trace, "call": request.call, "risk": request.risk, "effects": encode_effects(request.effects),
        "why": json.dumps(request.why.as_dict(), ensure_ascii=False), "params_digest": params_digest(request.params),
    }  # fmt: skip
    return row | {
        "id": request.id, "state": State.PENDING,
        "fingerprint": blake3(json.dumps([request.trace, request.binding]).encode()).hexdigest(),
        "created_ms": request.created_ms, "expires_ms": request.expires_ms, "params": params,
        "size": len(params.encode()) + len((request.preview or "").encode("utf-8", "replace")),
        "preview": None if request.preview is None else storable_text(request.preview),
        "client": request.client, "owner": owner,
    }  # fmt: skip


def _read_request(row: Any, now_ms: int) -> QueuedRequest:
    state = State(row["state"])
    overdue = state in (State.PENDING, State.ANSWERED) and row["expires_ms"] <= now_ms
    stored = None if overdue or row["params"] is None else parse_json(row["params"])
    params, provenance, destinations, *hosts = stored if isinstance(stored, list) else (stored, (), (), ())
    return QueuedRequest(
        id=row["id"], state=State.EXPIRED if overdue else state, user=row["user"], tool=row["tool"],
        digest=row["digest"], grant=row["granted"], trace=row["trace"], call=row["call"], risk=row["risk"],
        effects=tuple(Effect(e) for e in json.loads(row["effects"])), why=_read_decision(json.loads(row["why"])),
        provenance=tuple(provenance), destinations=tuple(destinations), params_digest=row["params_digest"],
        new_hosts=tuple(hosts[0] if hosts else ()), created_ms=row["created_ms"], expires_ms=row["expires_ms"],
        params=params, preview=None if overdue else row["preview"],
        approved=None if row["approved"] is None else bool(row["approved"]),
        scope=None if row["scope"] is None else ApprovalScope(row["scope"]),
        by=row["answered_by"] or "", note=row["note"] or "", decided_ms=row["decided_ms"], client=row["client"],
    )  # fmt: skip


def _read_answer(row: Any) -> ApprovalAnswer:
    """Return the answer in a row. An answer of scope `always` has already been remembered."""
    scope = ApprovalScope(row["scope"])
    return ApprovalAnswer(
        approved=bool(row["approved"]), scope=scope, remembered=scope is ApprovalScope.ALWAYS, by=row["answered_by"],
        note=row["note"], params=None if row["edited"] is None else parse_json(row["edited"]),
    )  # fmt: skip


def _read_decision(data: dict[str, Any]) -> Decision:
    suggestion: Addition | Step | None = None
    if (stored := data["suggestion"]) is not None and stored["kind"] == "step":
        suggestion = Step(stored["step"])
    elif stored is not None:
        suggestion = Addition(find_kind(stored["to"]).grant_list, json.dumps(stored["entry"], ensure_ascii=False))
    reason = Reason(data["reason"])
    return Decision(data["allowed"], reason, data["rule"], suggestion, data["capability"], data["subject"])


_CALL = RequestKind(
    store="approvals",
    table="request",
    schema=_SCHEMA,
    view=_read_request,
    expiring=_OPEN,
    closed=f"NOT {_OPEN}",
    cleared=("params", "preview", "edited"),
    closed_states={
        State.ANSWERED: ("answered", "was already answered"),
        State.USED: ("answered", "was already answered"),
        State.WITHDRAWN: ("withdrawn", "was withdrawn: its caller no longer waits"),
        State.OUTDATED: ("outdated", "is outdated: its tool has been updated"),
        State.EXPIRED: ("expired", "has expired"),
    },
)
