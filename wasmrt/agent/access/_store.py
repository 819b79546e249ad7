"""The store of requests for additions to a tool's grant, and of the answers to these requests."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasmrt.agent.access._model import AccessRequest, AccessScope, AccessState, Caller, DeniedAccess, Settle
from wasmrt.agent.approvals import (
    DISCONNECTED,
    Announce,
    RequestKind,
    RequestStore,
    RequestTable,
    new_request_id,
    short_note,
    this_process,
)
from wasmrt.capabilities import covers, find_kind
from wasmrt.core.database import Connection
from wasmrt.core.limits import (
    ACCESS_ONCE_SECONDS,
    ACCESS_REQUEST_SECONDS,
    MAX_ACCESS_PER_TOOL,
    MAX_ACCESS_PER_USER,
    MAX_DECIDED_ACCESS,
    MAX_PENDING_ACCESS,
)
from wasmrt.core.model import Addition
from wasmrt.core.terminal import to_single_line

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

_SCHEMA = """
CREATE TABLE access (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, user TEXT NOT NULL, trace TEXT NOT NULL, session TEXT NOT NULL,
    tool TEXT NOT NULL, digest TEXT NOT NULL, granted_digest TEXT NOT NULL, params_digest TEXT NOT NULL,
    wish TEXT NOT NULL, asked INTEGER NOT NULL, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, scope TEXT,
    granted TEXT, answered_by TEXT NOT NULL, note TEXT NOT NULL, decided_ms INTEGER, client TEXT NOT NULL,
    owner TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX access_tool ON access (user, tool, state);
CREATE INDEX access_state ON access (state, created_ms);
"""
_PERMANENT_DENIAL = "state = 'denied' AND scope = 'keep'"
_TEXTS = ("refused", "params", "call", "component", "part", "lasting", "stored_grant")
_LISTS = ("sentences", "limited", "origins")


class AccessStore(RequestStore[AccessRequest]):
    """The access requests and their answers, in a SQLite file, or in a PostgreSQL database that several hosts share.

    Each change is one transaction. Therefore, only one call in one process can use an answer of scope `once`.

    Examples:
        >>> from pathlib import Path
        >>> from wasmrt import AccessStore
        >>> AccessStore(Path("access.db")).pending()
        []
    """

    def __init__(
        self, path: Path | Postgres, *, now: Callable[[], float] = time.time, announce: Announce = None
    ) -> None:
        self._announce = announce
        self._requests = RequestTable(_GRANT, path, now=now)
        self._file = path if isinstance(path, Path) else None
        self._cache: tuple[FileVersion | None, dict[tuple[str, str], list[AccessRequest]]] = (None, {})
        """The answers by user and tool, and the version of the file for which they are valid. Every call reads them."""

    # Requests of calls.

    def ask(self, caller: Caller, denied: DeniedAccess) -> AccessRequest | None:
        """Request an addition to a grant, and return the pending request.

        If a pending request already covers the addition, this call is added to the number of its calls. If the addition
        was denied before, or too many requests are pending, no request is made, and the result is None.

        Raises:
            ApprovalError: the store cannot be written.
        """
        with self._requests.changing() as db:
            for row in db.execute(
                "SELECT * FROM access WHERE user = ? AND tool = ? AND digest = ? AND state IN ('pending', 'denied')",
                (caller.user, caller.tool, caller.digest),
            ).fetchall():
                known = _request_of(row, 0)
                if known.state is AccessState.DENIED and _is_denied(known, caller, denied):
                    return None
                if known.state is AccessState.PENDING and _is_same_request(known, caller, denied):
                    self._requests.update(db, known.id, {"asked": known.asked + 1})
                    return replace(known, asked=known.asked + 1)
            if _is_full(db, caller):
                return None
            now = self._requests.now_ms()
            made = AccessRequest(
                id=new_request_id(), state=AccessState.PENDING, caller=caller, denied=denied, asked=1, created_ms=now,
                expires_ms=now + int(ACCESS_REQUEST_SECONDS * 1000),
            )  # fmt: skip
            self._requests.insert(db, _make_row(made), max_closed=MAX_DECIDED_ACCESS)
        if self._announce:
            self._announce(f"{to_single_line(caller.tool)} requests more access")
        return made

    def granted(self, caller: Caller) -> tuple[AccessRequest, ...]:
        """Return the granted requests that apply to a call.

        A request granted with scope `keep` applies only in the process that made the request: later processes read the
        entry from the stored grant.

        Raises:
            ApprovalError: the store cannot be read.
        """
        now = self._requests.now_ms()
        return tuple(each for each in self.answers(caller.user, caller.tool) if _applies(each, caller, now))

    def answers(self, user: str, tool: str) -> Sequence[AccessRequest]:
        """Return all granted requests of a user for a tool. For most users and tools, there are none.

        Raises:
            ApprovalError: the store cannot be read.
        """
        if not self._requests.exists:
            return ()
        version, (cached, answers) = None if self._file is None else _file_version(self._file), self._cache
        if version is None or version != cached:
            self._cache = cached, answers = version, {}
        found = answers.get((user, tool))
        if found is None:
            found = self._requests.select("user = ? AND tool = ? AND state = 'granted'", user, tool)
            answers[user, tool] = found
        return found

    def use(self, request: AccessRequest) -> bool:
        """Mark an answer of scope `once` as used; return False if it was already used.

        Raises:
            ApprovalError: the store cannot be written.
        """
        if request.scope is not AccessScope.ONCE:
            return True
        with self._requests.changing() as db:
            return self._requests.end(db, AccessState.USED, "id = ? AND state = 'granted'", request.id) == 1

    def end_session(self, session: str, user: str, trace: str) -> None:
        """End a user's answers of scope `session` in the conversation `trace` of the running program `session`.

        Pending requests of a client are withdrawn, because its conversation ends when the client disconnects.

        Raises:
            ApprovalError: the store cannot be written.
        """
        if self._requests.exists:
            with self._requests.changing() as db:
                where = "session = ? AND user = ? AND trace = ?"
                answered = f"{where} AND scope = 'session' AND state = 'granted'"
                self._requests.end(db, AccessState.EXPIRED, answered, session, user, trace)
                asked = f"{where} AND state = 'pending' AND client != ''"
                self._requests.withdraw(db, DISCONNECTED, asked, session, user, trace)

    # Answers and lists.

    @contextmanager
    def answering(self, request_id: str, *, user: str) -> Iterator[tuple[AccessRequest, Settle]]:
        """Open a transaction to answer a request. Other answers wait until the `with` block has ended.

        The block receives the request, and a function that stores the answer. If the block fails, nothing is stored.

        Raises:
            ApprovalError: no request has this ID, or the request belongs to another user or is not pending.
        """
        with self._requests.changing() as db:
            request = self._requests.get_answerable(db, request_id, user)

            def settle(
                state: AccessState, scope: AccessScope, granted: Addition | None = None, *, by: str, note: str
            ) -> None:
                now = self._requests.now_ms()
                until = now + int(ACCESS_ONCE_SECONDS * 1000) if scope is AccessScope.ONCE else request.expires_ms
                values = {
                    "state": state, "scope": scope, "granted": _dump_addition(granted), "answered_by": short_note(by),
                    "note": short_note(note), "decided_ms": now, "expires_ms": until,
                }  # fmt: skip
                self._requests.update(db, request_id, values)
                if granted is not None and scope is AccessScope.KEEP:  # the stored grant changes
                    where = "state = 'pending' AND digest = ?"
                    self._requests.end(db, AccessState.OUTDATED, where, request.caller.digest)

            yield request, settle

    def outdate(self, request_id: str) -> None:
        """Mark a request as outdated, because its tool or grant has changed.

        Raises:
            ApprovalError: the store cannot be written.
        """
        with self._requests.changing() as db:
            self._requests.end(db, AccessState.OUTDATED, "id = ? AND state = 'pending'", request_id)

    def refused(self, user: str | None = None) -> list[AccessRequest]:
        """Return the permanently denied requests of a user, or of all users if `user` is None, oldest first.

        wasmrt does not request the additions in these requests again.

        Raises:
            ApprovalError: the store cannot be read.
        """
        return self._requests.select(f"{_PERMANENT_DENIAL} AND user = coalesce(?, user) ORDER BY created_ms, id", user)

    def forget(self, request_id: str) -> bool:
        """Delete a permanent denial, and return whether it existed. The addition can then be requested again.

        Raises:
            ApprovalError: the store cannot be written.
        """
        return self._forget(request_id) > 0

    def forget_all(self) -> int:
        """Delete every permanent denial; return their number.

        Raises:
            ApprovalError: the store cannot be written.
        """
        return self._forget(None)

    def _forget(self, request_id: str | None) -> int:
        if not self._requests.exists:
            return 0
        with self._requests.changing() as db:
            sql = f"DELETE FROM access WHERE {_PERMANENT_DENIAL} AND id = coalesce(?, id)"  # noqa: S608 - constants
            return db.execute(sql, (request_id,)).rowcount


FileVersion = tuple[tuple[int, int, int], ...]
_RACY_SECONDS = 0.1


def _file_version(path: Path) -> FileVersion | None:
    """Return numbers that differ after every change of the file, or None if the file changed too recently.

    SECURITY: timestamps have a resolution of milliseconds. A second change soon after the first might not change the
    numbers.
    """
    found: list[os.stat_result] = []
    for each in (path, path.with_name(f"{path.name}-wal")):
        with suppress(FileNotFoundError):
            found.append(each.stat())
    if not found or time.time_ns() - max(each.st_mtime_ns for each in found) <= _RACY_SECONDS * 1e9:
        return None
    return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)


def _applies(request: AccessRequest, caller: Caller, now_ms: int) -> bool:
    """Return whether a granted request applies to a call.

    SECURITY: an answer applies only to the version of the component and to the grant that the approver saw.
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


def _is_denied(known: AccessRequest, caller: Caller, denied: DeniedAccess) -> bool:
    """Return whether an addition was denied permanently or in this conversation."""
    here = (known.caller.session, known.caller.trace) == (caller.session, caller.trace)
    return (known.scope is AccessScope.KEEP or here) and covers(known.denied.addition, denied.addition)


def _is_same_request(known: AccessRequest, caller: Caller, denied: DeniedAccess) -> bool:
    same = (known.caller.trace, known.caller.grant) == (caller.trace, caller.grant)
    return same and known.denied.again == denied.again and covers(known.denied.addition, denied.addition)


def _is_full(db: Connection, caller: Caller) -> bool:
    """Return whether there are too many requests to accept another one.

    SECURITY: denied requests also count. Otherwise, a tool could repeat its request until a user approves it.
    """
    pending = "SELECT count(*) FROM access WHERE (state = 'pending'"
    of_tool = f"{pending} OR state = 'denied' AND session = ? AND trace = ?) AND user = ? AND tool = ?"
    counts: tuple[tuple[str, tuple[str, ...], int], ...] = (
        (f"{pending})", (), MAX_PENDING_ACCESS),
        (f"{pending}) AND user = ?", (caller.user,), MAX_ACCESS_PER_USER),
        (of_tool, (caller.session, caller.trace, caller.user, caller.tool), MAX_ACCESS_PER_TOOL),
    )
    return any(db.execute(sql, values).fetchone()[0] >= limit for sql, values, limit in counts)


def _make_row(request: AccessRequest) -> dict[str, Any]:
    """Convert a request to a row of the database."""
    caller, denied = request.caller, request.denied
    details: dict[str, Any] = {name: getattr(denied, name) for name in (*_TEXTS, *_LISTS)}
    details |= {
        "addition": _encode_addition(denied.addition),
        "again": [_encode_addition(each) for each in denied.again],
    }
    return {
        "id": request.id, "state": request.state, "user": caller.user, "trace": caller.trace,
        "session": caller.session, "tool": caller.tool, "digest": caller.digest, "granted_digest": caller.grant,
        "params_digest": caller.params_digest, "wish": json.dumps(details), "asked": request.asked,
        "created_ms": request.created_ms, "expires_ms": request.expires_ms, "scope": request.scope,
        "granted": _dump_addition(request.granted), "answered_by": request.by, "note": request.note,
        "decided_ms": request.decided_ms, "client": caller.client, "owner": this_process() if caller.client else "",
    }  # fmt: skip


def _request_of(row: Any, now_ms: int) -> AccessRequest:
    """Convert a row of the database to a request. A request that is overdue at `now_ms` has the state expired."""
    details = json.loads(row["wish"])
    details["addition"] = _decode_addition(details["addition"])
    details["again"] = tuple(map(_decode_addition, details["again"]))
    details |= {name: tuple(details[name]) for name in _LISTS}
    state, scope = AccessState(row["state"]), None if row["scope"] is None else AccessScope(row["scope"])
    open_ = state is AccessState.PENDING or (state is AccessState.GRANTED and scope is AccessScope.ONCE)
    return AccessRequest(
        id=row["id"],
        state=AccessState.EXPIRED if open_ and row["expires_ms"] <= now_ms else state,
        caller=Caller(
            user=row["user"], trace=row["trace"], session=row["session"], tool=row["tool"], digest=row["digest"],
            grant=row["granted_digest"], params_digest=row["params_digest"], client=row["client"],
        ),
        denied=DeniedAccess(**details),
        asked=row["asked"],
        created_ms=row["created_ms"],
        expires_ms=row["expires_ms"],
        scope=scope,
        granted=None if row["granted"] is None else _decode_addition(json.loads(row["granted"])),
        by=row["answered_by"],
        note=row["note"],
        decided_ms=row["decided_ms"],
    )  # fmt: skip


def _dump_addition(addition: Addition | None) -> str | None:
    return None if addition is None else json.dumps(_encode_addition(addition))


def _encode_addition(addition: Addition) -> list[Any]:
    return [str(addition.to), addition.entry, addition.new_section]


def _decode_addition(row: list[Any]) -> Addition:
    to, entry, new_section = row
    return Addition(find_kind(to).grant_list, entry, bool(new_section))


_GRANT = RequestKind(
    store="access",
    table="access",
    schema=_SCHEMA,
    view=_request_of,
    expiring="state = 'pending' OR (state = 'granted' AND scope = 'once')",
    # SECURITY: permanent denials are never deleted to make space.
    closed=f"state != 'pending' AND NOT ({_PERMANENT_DENIAL})",
    closed_states={
        AccessState.OUTDATED: ("outdated", "is outdated: its tool or grant has changed"),
        AccessState.EXPIRED: ("expired", "has expired"),
        AccessState.WITHDRAWN: ("withdrawn", "was withdrawn: its client no longer waits"),
        **dict.fromkeys(
            (AccessState.GRANTED, AccessState.USED, AccessState.DENIED), ("answered", "was already answered")
        ),
    },
)
