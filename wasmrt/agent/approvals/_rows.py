"""Rows of the approvals' database, as values and back."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from blake3 import blake3

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest, ApprovalScope, params_digest
from wasmrt.agent.approvals._pattern import ParamsPattern
from wasmrt.agent.approvals._remembered import Remembered
from wasmrt.core.effects import Effect
from wasmrt.core.limits import MAX_ANSWER_NOTE_BYTES
from wasmrt.core.model import Addition, Decision, GrantList, Reason, Step

VERSION = 1
SCHEMA = """
CREATE TABLE request (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, user TEXT NOT NULL, tool TEXT NOT NULL, digest TEXT NOT NULL,
    granted TEXT NOT NULL, trace TEXT NOT NULL, call TEXT NOT NULL, risk TEXT NOT NULL, effects TEXT NOT NULL,
    why TEXT NOT NULL, params_digest TEXT NOT NULL, fingerprint TEXT NOT NULL, created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL, size INTEGER NOT NULL, approved INTEGER, scope TEXT, answered_by TEXT, note TEXT,
    decided_ms INTEGER, params TEXT, preview TEXT, edited TEXT
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


class State(StrEnum):
    """States of a request. The first two are open; nothing leads out of the others."""

    PENDING = "pending"
    ANSWERED = "answered"
    """A person answered, and the caller has not taken it yet."""
    USED = "used"
    WITHDRAWN = "withdrawn"
    OUTDATED = "outdated"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """A request in the queue, and its answer once it has one.

    `params` and `preview` are there while it is pending, and not after.
    """

    id: str
    state: State
    user: str
    tool: str
    digest: str
    grant: str
    trace: str
    call: str
    risk: str
    effects: tuple[Effect, ...]
    why: Decision
    params_digest: str
    created_ms: int
    expires_ms: int
    params: dict[str, Any] | None
    preview: str | None
    provenance: tuple[str, ...]
    destinations: tuple[str, ...]
    approved: bool | None
    scope: ApprovalScope | None
    by: str
    note: str
    decided_ms: int | None

    @property
    def request(self) -> ApprovalRequest:
        """The request itself, while it is pending."""
        assert self.params is not None
        return ApprovalRequest(
            id=self.id,
            tool=self.tool,
            digest=self.digest,
            grant=self.grant,
            params=self.params,
            effects=self.effects,
            risk=self.risk,
            why=self.why,
            user=self.user,
            trace=self.trace,
            call=self.call,
            preview=self.preview,
            provenance=self.provenance,
            destinations=self.destinations,
            created_ms=self.created_ms,
            expires_ms=self.expires_ms,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the request as JSON data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        return data | {"effects": [str(e) for e in self.effects], "why": self.why.as_dict()}


def request_row(request: ApprovalRequest) -> dict[str, Any]:
    """Return the columns of a new request."""
    flow = (request.provenance, request.destinations)
    # A list has the params and what is told of the flow: all of it is overwritten together once it was answered.
    params = json.dumps([request.params, *flow] if any(flow) else request.params, ensure_ascii=False)
    row: dict[str, Any] = {
        "user": request.user,
        "tool": request.tool,
        "digest": request.digest,
        "granted": request.grant,
        "trace": request.trace,
        "call": request.call,
        "risk": request.risk,
        "effects": _effects_text(request.effects),
        "why": json.dumps(request.why.as_dict(), ensure_ascii=False),
        "params_digest": params_digest(request.params),
    }
    fingerprint = blake3(json.dumps(row).encode()).hexdigest()
    size = len(params.encode()) + len((request.preview or "").encode("utf-8", "replace"))
    return row | {
        "id": request.id,
        "state": State.PENDING,
        "fingerprint": fingerprint,
        "created_ms": request.created_ms,
        "expires_ms": request.expires_ms,
        "size": size,
        "params": params,
        "preview": None if request.preview is None else request.preview.encode("utf-8", "replace").decode(),
    }


def queued(row: sqlite3.Row) -> QueuedRequest:
    """Return the request of a row."""
    kept = None if row["params"] is None else json.loads(row["params"])
    params, provenance, destinations = kept if isinstance(kept, list) else (kept, (), ())
    return QueuedRequest(
        id=row["id"],
        state=State(row["state"]),
        user=row["user"],
        tool=row["tool"],
        digest=row["digest"],
        grant=row["granted"],
        trace=row["trace"],
        call=row["call"],
        risk=row["risk"],
        effects=tuple(Effect(e) for e in json.loads(row["effects"])),
        why=_decision(json.loads(row["why"])),
        provenance=tuple(provenance),
        destinations=tuple(destinations),
        params_digest=row["params_digest"],
        created_ms=row["created_ms"],
        expires_ms=row["expires_ms"],
        params=params,
        preview=row["preview"],
        approved=None if row["approved"] is None else bool(row["approved"]),
        scope=None if row["scope"] is None else ApprovalScope(row["scope"]),
        by=row["answered_by"] or "",
        note=row["note"] or "",
        decided_ms=row["decided_ms"],
    )


def answer_of(row: sqlite3.Row) -> ApprovalAnswer:
    """Return the answer that a person gave to the request of a row. One of scope `always` is kept already."""
    scope = ApprovalScope(row["scope"])
    return ApprovalAnswer(
        approved=bool(row["approved"]),
        scope=scope,
        remembered=scope is ApprovalScope.ALWAYS,
        by=row["answered_by"],
        note=row["note"],
        params=None if row["edited"] is None else json.loads(row["edited"]),
    )


def remembered_row(answer: Remembered) -> dict[str, Any]:
    """Return the columns of a remembered answer."""
    assert answer.pattern is not None
    pattern = json.dumps(answer.pattern.as_dict(), ensure_ascii=False, sort_keys=True)
    row: dict[str, Any] = {
        "user": answer.user,
        "tool": answer.tool,
        "digest": answer.digest,
        "granted": answer.grant,
        "asked": answer.asked,
        "effects": _effects_text(answer.effects),
        "pattern": pattern,
    }
    return row | {
        "id": answer.id,
        "binding": blake3(json.dumps(row).encode()).hexdigest(),
        "approved": int(answer.approved),
        "answered_by": short_note(answer.by),
        "note": short_note(answer.note),
        "made_ms": answer.made_ms,
    }


def remembered_of(row: sqlite3.Row) -> Remembered:
    """Return the remembered answer of a row."""
    return Remembered(
        id=row["id"],
        approved=bool(row["approved"]),
        scope=ApprovalScope.ALWAYS,
        user=row["user"],
        tool=row["tool"],
        digest=row["digest"],
        grant=row["granted"],
        trace="",
        asked=row["asked"],
        effects=frozenset(Effect(e) for e in json.loads(row["effects"])),
        pattern=ParamsPattern.from_dict(json.loads(row["pattern"])),
        by=row["answered_by"],
        note=row["note"],
        made_ms=row["made_ms"],
    )


def short_note(text: str) -> str:
    """Return a text of people's, cut to the bytes that are kept of it."""
    return text.encode("utf-8", "replace")[:MAX_ANSWER_NOTE_BYTES].decode("utf-8", "ignore")


def _effects_text(effects: tuple[Effect, ...] | frozenset[Effect]) -> str:
    return json.dumps(sorted(str(e) for e in effects))


def _decision(data: dict[str, Any]) -> Decision:
    suggestion: Addition | Step | None = None
    if (told := data["suggestion"]) is not None and told["kind"] == "step":
        suggestion = Step(told["step"])
    elif told is not None:
        suggestion = Addition(GrantList(told["to"]), json.dumps(told["entry"], ensure_ascii=False))
    reason = Reason(data["reason"])
    return Decision(data["allowed"], reason, data["rule"], suggestion, data["capability"], data["subject"])
