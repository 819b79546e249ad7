"""Rows of the database of access requests, as values and back."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from wasmrt.agent.access._model import AccessRequest, AccessScope, AccessState, Caller, Wish
from wasmrt.core.model import Addition, GrantList

VERSION = 1
SCHEMA = """
CREATE TABLE access (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, user TEXT NOT NULL, trace TEXT NOT NULL, session TEXT NOT NULL,
    tool TEXT NOT NULL, digest TEXT NOT NULL, granted_digest TEXT NOT NULL, params_digest TEXT NOT NULL,
    wish TEXT NOT NULL, asked INTEGER NOT NULL, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, scope TEXT,
    granted TEXT, answered_by TEXT NOT NULL, note TEXT NOT NULL, decided_ms INTEGER
) WITHOUT ROWID;
CREATE INDEX access_tool ON access (user, tool, state);
CREATE INDEX access_state ON access (state, created_ms);
"""


def row_of(request: AccessRequest) -> dict[str, Any]:
    """Return the columns of a request."""
    caller, wish = request.caller, request.wish
    told = {
        name: getattr(wish, name)
        for name in ("sentences", "limited", "refused", "origins", "params", "call", "component", "part", "lasting")
    }
    told |= {"stored_grant": wish.stored_grant, "addition": _plain(wish.addition)}
    told["again"] = [_plain(each) for each in wish.again]
    return {
        "id": request.id, "state": str(request.state), "user": caller.user, "trace": caller.trace,
        "session": caller.session, "tool": caller.tool, "digest": caller.digest, "granted_digest": caller.grant,
        "params_digest": caller.params_digest, "wish": json.dumps(told), "asked": request.asked,
        "created_ms": request.created_ms, "expires_ms": request.expires_ms,
        "scope": None if request.scope is None else str(request.scope), "granted": granted_text(request.granted),
        "answered_by": request.by, "note": request.note, "decided_ms": request.decided_ms,
    }  # fmt: skip


def request_of(row: sqlite3.Row) -> AccessRequest:
    """Return the request of a row."""
    told = json.loads(row["wish"])
    told["addition"] = _addition(told["addition"])
    for name in ("again", "sentences", "limited", "origins"):
        told[name] = tuple(map(_addition, told[name]) if name == "again" else told[name])
    return AccessRequest(
        id=row["id"],
        state=AccessState(row["state"]),
        caller=Caller(
            user=row["user"], trace=row["trace"], session=row["session"], tool=row["tool"], digest=row["digest"],
            grant=row["granted_digest"], params_digest=row["params_digest"],
        ),
        wish=Wish(**told),
        asked=row["asked"],
        created_ms=row["created_ms"],
        expires_ms=row["expires_ms"],
        scope=None if row["scope"] is None else AccessScope(row["scope"]),
        granted=None if row["granted"] is None else _addition(json.loads(row["granted"])),
        by=row["answered_by"],
        note=row["note"],
        decided_ms=row["decided_ms"],
    )  # fmt: skip


def granted_text(addition: Addition | None) -> str | None:
    """Return an entry as the text of a column."""
    return None if addition is None else json.dumps(_plain(addition))


def _plain(addition: Addition) -> list[Any]:
    return [str(addition.to), addition.entry, addition.new_section]


def _addition(row: list[Any]) -> Addition:
    to, entry, new_section = row
    return Addition(GrantList(to), entry, bool(new_section))
