"""Remembered answers: the requests to which they apply, and a copy of the stored answers in memory."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from blake3 import blake3

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest, ApprovalScope, new_request_id
from wasmrt.agent.approvals._pattern import ParamsPattern
from wasmrt.agent.approvals._requests import insert, short_note
from wasmrt.agent.approvals._targets import session_reach
from wasmrt.core.database import Connection, Database, Store
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ApprovalError
from wasmrt.core.limits import MAX_REMEMBERED_ANSWERS

Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """An answer that also applies to later requests, and the properties that such requests must have."""

    id: str
    approved: bool
    scope: ApprovalScope
    user: str
    tool: str
    digest: str
    grant: str
    trace: str
    """The trace to which the answer is limited; empty unless the scope is a session."""
    asked: str
    """The reason and the destinations of the request. The answer does not apply to a request with different ones."""
    effects: frozenset[Effect]
    pattern: ParamsPattern | None
    """The parameters to which the answer applies; None for all parameters within `reach`."""
    reach: str = ""
    """For a session: the method, hosts, recipients and folders of the call, from `session_reach`."""
    by: str
    note: str
    made_ms: int

    @classmethod
    def of(cls, request: ApprovalRequest, answer: ApprovalAnswer, *, now_ms: int) -> Remembered:
        """Return the object that remembers an answer of scope `session` or `always`."""
        params = request.params if answer.params is None else answer.params
        in_session = answer.scope is ApprovalScope.SESSION
        pattern = ParamsPattern(params) if answer.pattern is None and not in_session else answer.pattern
        return cls(
            id=new_request_id(), approved=answer.approved, scope=answer.scope, user=request.user, tool=request.tool,
            digest=request.digest, grant=request.grant, asked=_describe_reason(request),
            effects=frozenset(request.effects), pattern=pattern, by=answer.by,
            trace=request.trace if in_session else "", note=answer.note, made_ms=now_ms,
            reach=session_reach(params, frozenset(request.effects)) if in_session and pattern is None else "",
        )  # fmt: skip

    @property
    def key(self) -> Key:
        """The properties that are compared first: the user, the tool, its digest and its grant."""
        return self.user, self.tool, self.digest, self.grant

    @property
    def binding(self) -> tuple[Any, ...]:
        """All properties that a request must have. A new answer replaces an older answer with the same binding."""
        pattern = None if self.pattern is None else repr(self.pattern.as_dict())
        return (*self.key, self.scope, self.trace, self.asked, self.effects, pattern, self.reach)

    def matches(self, request: ApprovalRequest) -> bool:
        """Return whether the answer applies to this request.

        SECURITY: the request must match everything that the approver saw. No answer applies to a tool without a digest,
        because the tool may change between calls.
        """
        return (
            request.may_be_remembered
            and self.key == request_key(request)
            and (self.scope is not ApprovalScope.SESSION or self._is_in_session(request))
            and self.asked == _describe_reason(request)
            and self.effects.issuperset(request.effects)
            and (self.pattern is None or self.pattern.matches(request.params))
        )

    def _is_in_session(self, request: ApprovalRequest) -> bool:
        """Return whether a request belongs to the session of the answer, and has the same targets."""
        if self.trace != request.trace or not self.trace:
            return False
        return self.pattern is not None or self.reach == session_reach(request.params, self.effects)

    def as_dict(self) -> dict[str, Any]:
        """Return the answer and its binding as JSON data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        effects = sorted(str(effect) for effect in self.effects)
        return data | {"effects": effects, "pattern": None if self.pattern is None else self.pattern.as_dict()}

    @property
    def answer(self) -> ApprovalAnswer:
        """The answer to a request to which this remembered answer applies."""
        return ApprovalAnswer(
            approved=self.approved, scope=self.scope, by=self.by, note=self.note, pattern=self.pattern, remembered=True
        )


class Answers:
    """The remembered answers. At most one answer has a given binding (see `Remembered.binding`). Not thread-safe."""

    def __init__(self, answers: Iterable[Remembered] = (), *, limit: int = MAX_REMEMBERED_ANSWERS) -> None:
        self._limit = limit
        self._by_key: dict[Key, dict[tuple[Any, ...], Remembered]] = {}
        self._order: dict[str, Remembered] = {}
        for answer in answers:
            self.add(answer)

    def __iter__(self) -> Iterator[Remembered]:
        return iter(self._order.values())

    def add(self, answer: Remembered) -> None:
        """Add an answer. If there are then too many, the oldest answer is dropped; its calls require approval again."""
        same = self._by_key.setdefault(answer.key, {})
        binding = answer.binding
        if (replaced := same.get(binding)) is not None:
            del self._order[replaced.id]
        same[binding] = answer
        self._order[answer.id] = answer
        if len(self._order) > self._limit:
            self.drop(next(iter(self._order.values())))

    def drop(self, answer: Remembered) -> None:
        """Forget an answer."""
        del self._order[answer.id]
        same = self._by_key[answer.key]
        del same[answer.binding]
        if not same:
            del self._by_key[answer.key]

    def find(self, request: ApprovalRequest) -> Remembered | None:
        """Return the answer that applies to a request. SECURITY: if several answers apply, a denial wins."""
        same = self._by_key.get(request_key(request))
        if not same:
            return None
        found = None
        for answer in same.values():
            if answer.matches(request):
                if not answer.approved:
                    return answer
                found = answer
        return found


def request_key(request: ApprovalRequest) -> Key:
    """Return the properties of a request that must equal the `key` of a remembered answer."""
    return request.user, request.tool, request.digest, request.grant


def _describe_reason(request: ApprovalRequest) -> str:
    asked = f"{request.why.reason}: {request.why.rule}"
    if not request.destinations:
        return asked
    # SECURITY: an approval applies only to the same destinations.
    text = "\n".join(sorted(request.destinations))
    return f"{asked} [{blake3(text.encode('utf-8', 'replace')).hexdigest()}]"


class Mirror:
    """A copy of the stored answers in memory, read through one open connection. Safe across threads and forks."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None
        self._process = os.getpid()
        self._version = 0
        self._counter = -1
        self._answers = Answers()

    def find(self, request: ApprovalRequest) -> Remembered | None:
        """Return the stored answer that applies to a request now.

        Raises:
            ApprovalError: the file cannot be read.
        """
        self._notice_fork()
        with self._lock, self._database.translated():
            self._refresh()
            return self._answers.find(request)

    def version(self) -> tuple[int, ...]:
        """Return numbers that differ after every change of the file.

        Raises:
            ApprovalError: the file cannot be read.
        """
        self._notice_fork()
        with self._lock, self._database.translated():
            return (self._read_data_version(), *(self._opened or ()))

    def close(self) -> None:
        """Close the connection; the next query opens a new one."""
        self._notice_fork()
        with self._lock:
            self._reset()

    def __del__(self) -> None:
        # Since Python 3.13, an unclosed connection causes a ResourceWarning.
        if self._db is not None and self._process == os.getpid():
            self._db.close()

    def _read_data_version(self) -> int:
        """Return SQLite's number for the version of the data; 0 if the file does not exist.

        SECURITY: if the file was replaced or removed, its answers no longer apply.
        """
        found = self._database.status()
        identity = None if found is None else (found.st_dev, found.st_ino)
        if identity != self._opened:
            self._reset()
            if identity is not None:
                self._db = self._database.connect()
                self._opened = identity
        if self._db is None:
            return 0
        version: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _refresh(self) -> None:
        version = self._read_data_version()
        if self._db is None or version == self._version:
            return
        counter = self._db.execute("SELECT value FROM counter WHERE name = 'answers'").fetchone()[0]
        if counter != self._counter:
            self._answers = _read_answers(self._db)
        self._version, self._counter = version, counter

    def _reset(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db, self._opened, self._version, self._counter, self._answers = None, None, 0, -1, Answers()

    def _notice_fork(self) -> None:
        """Abandon the parent's connection: SQLite connections must not be used or closed after a fork."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._abandoned = self._db
            self._lock = threading.Lock()
            self._db = None
            self._reset()


class SharedMirror:
    """A copy of the answers of a shared store in memory, which is read again when they have changed. Thread-safe."""

    def __init__(self, database: Store) -> None:
        self._database = database
        self._copy: tuple[int, Answers] = (-1, Answers())

    def find(self, request: ApprovalRequest) -> Remembered | None:
        """Return the stored answer that applies to a request now. It raises the errors of `Mirror.find`."""
        with self._database.reading() as db:
            counter = db.execute("SELECT value FROM counter WHERE name = 'answers'").fetchone()[0]
            known, answers = self._copy
            if counter != known:
                answers = _read_answers(db)
                self._copy = counter, answers
        return answers.find(request)

    def version(self) -> tuple[int, ...]:
        """Return numbers that differ after every change. They show which transactions of the server have finished."""
        with self._database.reading() as db:
            snapshot: str = db.execute("SELECT CAST(pg_current_snapshot() AS TEXT)").fetchone()[0]
            return tuple(map(int, snapshot.replace(",", ":").strip(":").split(":")))

    def close(self) -> None:
        """Close the idle connections; the next query opens a new one."""
        self._database.close()


def _read_answers(db: Connection) -> Answers:
    return Answers(map(remembered_of, db.execute("SELECT * FROM answer ORDER BY made_ms, id").fetchall()))


def insert_answer(db: Connection, answer: Remembered) -> None:
    """Store an answer, which replaces an answer with the same binding."""
    row = _remembered_row(answer)
    db.execute("DELETE FROM answer WHERE binding = ?", (row["binding"],))
    if db.execute("SELECT count(*) FROM answer").fetchone()[0] >= MAX_REMEMBERED_ANSWERS:
        raise ApprovalError(
            f"{MAX_REMEMBERED_ANSWERS:,} answers are already remembered",
            code="too-many-answers",
            hint="delete answers that are no longer needed: wasmrt approvals forget ID",
        )
    insert(db, "answer", row)
    increment_counter(db)


def increment_counter(db: Connection) -> None:
    """Increment the counter of changes, so that every process reads the remembered answers again."""
    db.execute("UPDATE counter SET value = value + 1 WHERE name = 'answers'")


def _remembered_row(answer: Remembered) -> dict[str, Any]:
    """Return the database columns of a remembered answer."""
    assert answer.pattern is not None
    pattern = json.dumps(answer.pattern.as_dict(), ensure_ascii=False, sort_keys=True)
    row: dict[str, Any] = {
        "user": answer.user, "tool": answer.tool, "digest": answer.digest, "granted": answer.grant,
        "asked": answer.asked, "effects": encode_effects(answer.effects), "pattern": pattern,
    }  # fmt: skip
    return row | {
        "id": answer.id, "binding": blake3(json.dumps(row).encode()).hexdigest(), "approved": int(answer.approved),
        "answered_by": short_note(answer.by), "note": short_note(answer.note), "made_ms": answer.made_ms,
    }  # fmt: skip


def remembered_of(row: Any) -> Remembered:
    """Return the remembered answer in a database row."""
    return Remembered(
        id=row["id"], approved=bool(row["approved"]), scope=ApprovalScope.ALWAYS, user=row["user"], tool=row["tool"],
        digest=row["digest"], grant=row["granted"], trace="", asked=row["asked"], by=row["answered_by"],
        effects=frozenset(Effect(e) for e in json.loads(row["effects"])), note=row["note"], made_ms=row["made_ms"],
        pattern=ParamsPattern.from_dict(json.loads(row["pattern"])),
    )  # fmt: skip


def encode_effects(effects: tuple[Effect, ...] | frozenset[Effect]) -> str:
    return json.dumps(sorted(str(e) for e in effects))
