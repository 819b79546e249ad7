"""Answers for the rest of a session, in a database that several hosts share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from wasmrt.agent.approvals._model import ApprovalRequest, ApprovalScope
from wasmrt.agent.approvals._pattern import ParamsPattern
from wasmrt.agent.approvals._remembered import Answers, Remembered, request_key
from wasmrt.agent.approvals._requests import unusable_error
from wasmrt.core.database import Store
from wasmrt.core.effects import Effect
from wasmrt.core.limits import MAX_SESSION_ANSWERS, POSTGRES_NOW_MS, SESSION_ANSWER_SECONDS
from wasmrt.core.strict_json import parse_json

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

_VERSION = 1
_SCHEMA = """
CREATE TABLE answer (
    binding TEXT PRIMARY KEY, session TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, made_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX answer_session ON answer (session, made_ms);
CREATE INDEX answer_time ON answer (made_ms);
"""
_MADE_MS = SESSION_ANSWER_SECONDS * 1000
_OLD = f"made_ms <= {POSTGRES_NOW_MS} - {_MADE_MS}"


class SessionAnswers:
    """The answers of all sessions. Each applies for a day at most, because a host can stop without ending a session."""

    def __init__(self, place: Postgres) -> None:
        self._database: Store = place.open("sessions", _SCHEMA, _VERSION, unusable=unusable_error)

    def find(self, request: ApprovalRequest) -> Remembered | None:
        """Return the answer that applies to a request, or None.

        Raises:
            ApprovalError: the database cannot be read.
        """
        query = f"SELECT data FROM answer WHERE session = ? AND key = ? AND NOT {_OLD} ORDER BY made_ms, binding"  # noqa: S608
        with self._database.reading() as db:
            rows = db.execute(query, (_hash(request.trace), _hash(*request_key(request)))).fetchall()
            return Answers(_read(parse_json(row[0])) for row in rows).find(request)

    def add(self, answer: Remembered) -> None:
        """Store an answer, which replaces an answer with the same binding. A session has a maximum number of answers.

        Raises:
            ApprovalError: the database cannot be written.
        """
        session, data = _hash(answer.trace), json.dumps(answer.as_dict())
        row = (_hash(*map(str, _sorted(answer.binding))), session, _hash(*answer.key), data)
        over = "SELECT binding FROM answer WHERE session = ? ORDER BY made_ms DESC, binding OFFSET ?"
        with self._database.writing() as db:
            db.execute(f"DELETE FROM answer WHERE {_OLD} OR binding = ?", row[:1])  # noqa: S608 - a constant
            db.execute("INSERT INTO answer VALUES (?, ?, ?, ?, ?)", (*row, self._database.now_ms(db)))
            db.execute(f"DELETE FROM answer WHERE binding IN ({over})", (session, MAX_SESSION_ANSWERS))  # noqa: S608

    def end(self, trace: str) -> None:
        """Delete the answers of a session.

        Raises:
            ApprovalError: the database cannot be written.
        """
        with self._database.writing() as db:
            db.execute("DELETE FROM answer WHERE session = ?", (_hash(trace),))


def _sorted(binding: tuple[Any, ...]) -> list[object]:
    """Return the parts of a binding, with each set as a sorted list, so that equal bindings have equal texts."""
    return [sorted(map(str, part)) if isinstance(part, frozenset) else part for part in binding]


def _hash(*parts: str) -> str:
    """Return a hash of texts. The database stores the hash, because it cannot store some characters of such texts."""
    return blake3(json.dumps(parts).encode()).hexdigest()


def _read(data: Any) -> Remembered:
    pattern = data["pattern"]
    return Remembered(
        **data
        | {
            "scope": ApprovalScope(data["scope"]),
            "effects": frozenset(map(Effect, data["effects"])),
            "pattern": None if pattern is None else ParamsPattern.from_dict(pattern),
        }
    )
