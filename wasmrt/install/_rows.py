"""The rows of the index: how a version is written, read and dropped, inside somebody's transaction."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from wasmrt.install._model import Draft, ToolVersion
from wasmrt.limits import MAX_TOOL_VERSIONS

_COLUMNS = (
    "name, number, digest, size_bytes, world, description, origin, installed_at, schema_digest, imports, exports, "
    "sidecar, granted"
)


def version_rows(db: sqlite3.Connection, name: str) -> list[Any]:
    # The columns are ours, from the constant above.
    query = f"SELECT {_COLUMNS}, number = (SELECT active FROM tool WHERE name = :name)"  # noqa: S608
    return db.execute(f"{query} FROM version WHERE name = :name ORDER BY number", {"name": name}).fetchall()


def digests(db: sqlite3.Connection) -> set[str]:
    return {digest for (digest,) in db.execute("SELECT DISTINCT digest FROM version")}


def version_of(row: tuple[Any, ...]) -> ToolVersion:
    name, number, digest, size, world, description, origin, installed_at, schema, imports, exports, *rest = row
    sidecar, granted, active = rest
    return ToolVersion(
        name=name,
        number=number,
        digest=digest,
        size_bytes=size,
        world=world,
        description=description,
        origin=origin,
        installed_at=installed_at,
        schema_digest=schema,
        imports=tuple(json.loads(imports)),
        exports=tuple(json.loads(exports)),
        sidecar=sidecar,
        grant=granted,
        active=bool(active),
    )


def is_same(known: ToolVersion, draft: Draft) -> bool:
    return known.digest == draft.digest and known.sidecar == draft.sidecar


def insert(db: sqlite3.Connection, draft: Draft, number: int, grant: str | None) -> None:
    from datetime import UTC, datetime  # reading does without

    values = (
        draft.name,
        number,
        draft.digest,
        draft.size_bytes,
        draft.world,
        draft.description,
        draft.origin,
        datetime.now(UTC).isoformat(timespec="seconds"),
        draft.schema_digest,
        json.dumps(draft.imports),
        json.dumps(draft.exports),
        draft.sidecar,
        grant,
    )
    marks = ", ".join("?" * len(values))
    db.execute(f"INSERT INTO version ({_COLUMNS}) VALUES ({marks})", values)  # noqa: S608 - our columns and marks


def activate(db: sqlite3.Connection, name: str, number: int) -> None:
    db.execute(
        "INSERT INTO tool (name, active) VALUES (:name, :number)"
        " ON CONFLICT (name) DO UPDATE SET active = :number, waiting = NULL",
        {"name": name, "number": number},
    )


def drop_waiting(db: sqlite3.Connection, name: str) -> None:
    db.execute("DELETE FROM version WHERE name = ? AND granted IS NULL", (name,))


def drop_oldest(db: sqlite3.Connection, name: str) -> None:
    db.execute(
        "DELETE FROM version WHERE name = :name AND number IN (SELECT number FROM version WHERE name = :name"
        " AND number <> (SELECT active FROM tool WHERE name = :name) ORDER BY number DESC LIMIT -1 OFFSET :kept)",
        {"name": name, "kept": MAX_TOOL_VERSIONS - 1},
    )
