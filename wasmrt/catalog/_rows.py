"""Read, insert and delete the rows of versions within the caller's transaction."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from typing import Any

from wasmrt.catalog._model import Kept, NewVersion, Provenance, ToolVersion
from wasmrt.core.limits import MAX_TOOL_VERSIONS
from wasmrt.core.model import Addition

_COLUMNS = (
    "name, number, digest, size_bytes, world, description, tools, origin, installed_at, schema_digest, imports, "
    "exports, sidecar, granted, package, kept, for_agents, provenance"
)


def read_versions(db: sqlite3.Connection, name: str) -> tuple[ToolVersion, ...]:
    """Return the versions of a tool, oldest first."""
    # SECURITY: the column names come from the constant above, not from input.
    query = f"SELECT {_COLUMNS}, number = (SELECT active FROM tool WHERE name = :name)"  # noqa: S608
    rows = db.execute(f"{query} FROM version WHERE name = :name ORDER BY number", {"name": name}).fetchall()
    return tuple(map(_read_version, rows))


def read_digests(db: sqlite3.Connection) -> set[str]:
    """Return the digests of all versions."""
    return {digest for (digest,) in db.execute("SELECT DISTINCT digest FROM version")}


def store(db: sqlite3.Connection, new: NewVersion, number: int, grant: str | None, *, for_agents: bool) -> None:
    """Store a version as the active one or, without a grant, as the pending update. Delete the oldest versions."""
    db.execute("DELETE FROM version WHERE name = ? AND granted IS NULL", (new.name,))
    insert(db, new, number, grant, for_agents=for_agents)
    if grant is None:
        db.execute("UPDATE tool SET pending = ? WHERE name = ?", (number, new.name))
    else:
        activate(db, new.name, number)
    db.execute(
        "DELETE FROM version WHERE name = :name AND number IN (SELECT number FROM version WHERE name = :name"
        " AND number <> (SELECT active FROM tool WHERE name = :name) ORDER BY number DESC LIMIT -1 OFFSET :kept)",
        {"name": new.name, "kept": MAX_TOOL_VERSIONS - 1},
    )


def insert(db: sqlite3.Connection, new: NewVersion, number: int, grant: str | None, *, for_agents: bool) -> None:
    """Insert the row of a version, without changing other rows."""
    info = new.info
    values = (
        new.name,
        number,
        new.component.digest,
        len(new.component.data),
        info.world,
        info.description,
        new.tools,
        new.origin,
        datetime.now(UTC).isoformat(timespec="seconds"),
        info.schema_digest,
        json.dumps(info.imports),
        json.dumps(info.exports),
        new.sidecar,
        grant,
        new.package,
        kept_text(new.kept) if new.kept else None,
        for_agents,
        new.provenance.dump(),
    )
    marks = ", ".join("?" * len(values))
    db.execute(f"INSERT INTO version ({_COLUMNS}) VALUES ({marks})", values)  # noqa: S608 - our columns and marks


def set_provenance(db: sqlite3.Connection, name: str, number: int, provenance: Provenance) -> None:
    """Replace the provenance of a version."""
    db.execute("UPDATE version SET provenance = ? WHERE name = ? AND number = ?", (provenance.dump(), name, number))


def activate(db: sqlite3.Connection, name: str, number: int) -> None:
    """Make a version the active one. The tool then has no pending update."""
    db.execute(
        "INSERT INTO tool (name, active) VALUES (:name, :number)"
        " ON CONFLICT (name) DO UPDATE SET active = :number, pending = NULL",
        {"name": name, "number": number},
    )


def _read_version(row: tuple[Any, ...]) -> ToolVersion:
    name, number, digest, size, world, description, tools, *rest = row
    origin, installed_at, schema, imports, exports, sidecar, grant, package, kept, for_agents, provenance, active = rest
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
        grant=grant,
        active=bool(active),
        package=package,
        tools=tools,
        kept=() if kept is None else tuple(_read_kept(each) for each in json.loads(kept)),
        for_agents=bool(for_agents),
        provenance=Provenance.load(provenance),
    )


def kept_text(kept: tuple[Kept, ...]) -> str:
    """Return the entries as text for the column `kept`."""
    rows = [[str(each.addition.to), each.addition.entry, each.tool, each.by, each.at] for each in kept]
    return json.dumps(rows, ensure_ascii=False)


def _read_kept(row: list[Any]) -> Kept:
    from wasmrt.capabilities import find_kind  # not needed to list tools

    to, entry, tool, by, at = row
    return Kept(Addition(find_kind(to).grant_list, entry), tool, by, at)
