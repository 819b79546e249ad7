"""Documents in the database, with their append-only versions and the searchable chunks of their current content.

A version is the text of one write. A version that replaced the document begins a chain, and its `base` is its own
number. An appended version has the same base as the previous version. The content of the document at a version is the
text of all versions from the base up to this version.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from wasmrt.agent.builtin.memory._model import Author, MemoryDocument, MemoryVersion, Trust, is_target
from wasmrt.agent.builtin.memory._search import Backend, split_into_chunks
from wasmrt.core.database import Connection
from wasmrt.core.errors import MemoryStoreError
from wasmrt.core.limits import MAX_MEMORY_CHUNKS, MAX_MEMORY_DOCUMENTS
from wasmrt.core.names import path_key
from wasmrt.runtime.memory import MemorySettings


class Row(NamedTuple):
    """A document's row in the database."""

    id: int
    path: str
    number: int
    """Number of the newest version."""
    base: int
    """Number of the version with which the current content begins."""
    bytes: int
    """Size of the current content, in bytes."""
    old_bytes: int
    """Size of the versions before the base, in bytes."""
    updated_ms: int
    named: Trust
    """The trust in the document's path, because a path may also contain untrusted text."""


def find(db: Connection, path: str) -> Row | None:
    """Return the document with a path, ignoring case, or None."""
    columns = "id, path, number, base, bytes, old_bytes, updated_ms, named"
    found = db.execute(f"SELECT {columns} FROM document WHERE key = ?", (path_key(path),)).fetchone()  # noqa: S608
    return None if found is None else Row(*found)._replace(named=Trust(found[-1]))


def get(db: Connection, path: str) -> Row:
    """Return the document with a path, ignoring case.

    Raises:
        MemoryStoreError: the document does not exist.
    """
    found = find(db, path)
    if found is None:
        raise not_found_error(path)
    return found


def not_found_error(path: str) -> MemoryStoreError:
    """Create the error for a document that does not exist."""
    hint = "list the documents: wasmrt memory list, or memory_tree"
    return MemoryStoreError(f"the memory has no document {path!r:.200}", code="memory-not-found", hint=hint)


def read_version(db: Connection, row: Row, number: int | None = None) -> MemoryDocument:
    """Return a document at a version, by default the newest.

    Raises:
        MemoryStoreError: the version does not exist, or was deleted.
    """
    number = row.number if number is None else number
    query = "SELECT base, made_ms FROM version WHERE document = ? AND number = ?"
    known = 0 < number <= row.number  # a larger number may not fit into an integer of SQLite
    found = db.execute(query, (row.id, number)).fetchone() if known else None
    if found is None:
        raise MemoryStoreError(
            f"{row.path!r:.200} has no version {number}", code="memory-not-found",
            hint="list its versions: wasmrt memory history PATH",
        )  # fmt: skip
    base, made_ms = found
    text, trust = _read_text(db, row.id, base, number)
    return MemoryDocument(row.path, text, number, max(row.named, trust), made_ms)


def history(db: Connection, row: Row) -> list[MemoryVersion]:
    """Return the stored versions of a document, newest first."""
    query = "SELECT number, bytes, base, trust, author, made_ms FROM version WHERE document = ? ORDER BY number DESC"
    return [
        MemoryVersion(row.path, number, size, number > base, Trust(trust), Author(author), made_ms)
        for number, size, base, trust, author, made_ms in db.execute(query, (row.id,)).fetchall()
    ]


def add(
    backend: Backend,
    db: Connection,
    settings: MemorySettings,
    path: str,
    text: str,
    *,
    append: bool,
    trust: Trust,
    author: Author,
) -> MemoryVersion:
    """Add a version to a document, and return the version. The document is created if it does not exist.

    Raises:
        MemoryStoreError: a limit is exceeded.
    """
    row = find(db, path) or _create(db, path, trust)
    if author is Author.PERSON and row.named is not Trust.TRUSTED:
        db.execute("UPDATE document SET named = ? WHERE id = ?", (Trust.TRUSTED, row.id))
    appended = append and row.bytes > 0
    text = _get_separator(db, row) + text if appended else text
    size, number = len(text.encode()), row.number + 1
    present = row.bytes + size if appended else size
    if present > settings.max_document_bytes:
        raise MemoryStoreError(
            f"the document would have {present:,} bytes, and the maximum is {settings.max_document_bytes:,}",
            code="memory-too-large", hint="write a shorter text, or use a different path",
        )  # fmt: skip
    base, now = row.base if appended else number, time.time_ns() // 1_000_000
    values = (row.id, number, base, text, size, trust, author, now)
    db.execute("INSERT INTO version VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    old = row.old_bytes if appended else row.old_bytes + row.bytes
    changed = (number, base, present, old, now, row.id)
    db.execute(
        "UPDATE document SET number = ?, base = ?, bytes = ?, old_bytes = ?, updated_ms = ? WHERE id = ?", changed
    )
    if row.number and not appended:
        _delete_chunks(db, row.id)
    _add_chunks(backend, db, row.id, number, row.path, text)
    if row.number:
        _prune(db, row.id, settings.max_versions)
    if not backend.is_within(db, settings.max_user_bytes):
        _enforce_size(db, settings.max_user_bytes)
    return MemoryVersion(row.path, number, size, appended, trust, author, now)


def remove(db: Connection, row: Row) -> None:
    """Remove a document with all its versions."""
    _delete_chunks(db, row.id)
    db.execute("DELETE FROM version WHERE document = ?", (row.id,))
    db.execute("DELETE FROM document WHERE id = ?", (row.id,))


def _delete_chunks(db: Connection, document: int) -> None:
    # One by one: without chunks, the full-text index is not touched, which would write its pending words to the disk.
    for chunk in db.execute("SELECT id FROM chunk WHERE document = ?", (document,)).fetchall():
        db.execute("DELETE FROM word WHERE rowid = ?", chunk)
        db.execute("DELETE FROM vector WHERE chunk = ?", chunk)
        db.execute("DELETE FROM chunk WHERE id = ?", chunk)


def _create(db: Connection, path: str, trust: Trust) -> Row:
    if _is_full(db, "document", MAX_MEMORY_DOCUMENTS):
        raise _full_error(f"{MAX_MEMORY_DOCUMENTS:,} documents")
    named = Trust.TRUSTED if is_target(path) else trust
    insert = (
        "INSERT INTO document SELECT coalesce(max(id), 0) + 1, CAST(? AS TEXT), CAST(? AS TEXT), 0, 0, 0, 0, 0, "
        "CAST(? AS INTEGER) FROM document RETURNING id"
    )
    ((made,),) = db.execute(insert, (path_key(path), path, named)).fetchall()
    return Row(made, path, 0, 0, 0, 0, 0, named)


def _read_text(db: Connection, document: int, base: int, number: int) -> tuple[str, Trust]:
    """Return the text and trust of a document at a version whose chain begins at `base`."""
    query = "SELECT text, trust FROM version WHERE document = ? AND number BETWEEN ? AND ? ORDER BY number"
    parts = db.execute(query, (document, base, number)).fetchall()
    return "".join(part for part, _ in parts), max(Trust(trust) for _, trust in parts)


def _get_separator(db: Connection, row: Row) -> str:
    """Return a newline if the newest version does not end with one."""
    query = "SELECT substr(text, length(text)) FROM version WHERE document = ? AND number = ?"
    last = db.execute(query, (row.id, row.number)).fetchone()
    return "" if last is not None and last[0] == "\n" else "\n"


def _add_chunks(backend: Backend, db: Connection, document: int, number: int, path: str, text: str) -> None:
    insert = "INSERT INTO chunk SELECT coalesce(max(id), 0) + 1, ?, ?, ?, ? FROM chunk RETURNING id"
    for start, length in split_into_chunks(text):
        if _is_full(db, "chunk", MAX_MEMORY_CHUNKS):
            raise _full_error(f"{MAX_MEMORY_CHUNKS:,} chunks of text")
        ((made,),) = db.execute(insert, (document, number, start, length)).fetchall()
        backend.add_words(db, made, f"{path}\n{text[start : start + length]}")  # the path is searchable, too


def _prune(db: Connection, document: int, most: int) -> None:
    """Delete the oldest versions of a document, so that at most `most` precede its current content."""
    query = "SELECT number FROM version WHERE document = ? AND number < (SELECT base FROM document WHERE id = ?)"
    old = [number for (number,) in db.execute(f"{query} ORDER BY number", (document, document))]
    if len(old) <= most:
        return
    kept = old[len(old) - most] if most else None
    if kept is not None:
        _begin_chain(db, document, kept)
    before = db.execute("SELECT base FROM document WHERE id = ?", (document,)).fetchone()[0] if kept is None else kept
    db.execute("DELETE FROM version WHERE document = ? AND number < ?", (document, before))
    db.execute(
        "UPDATE document SET old_bytes = (SELECT coalesce(sum(bytes), 0) FROM version "
        "WHERE document = document.id AND number < document.base) WHERE id = ?", (document,),
    )  # fmt: skip


def _begin_chain(db: Connection, document: int, number: int) -> None:
    """Store the whole document in a version, so that earlier versions can be deleted."""
    base = db.execute("SELECT base FROM version WHERE document = ? AND number = ?", (document, number)).fetchone()[0]
    if base == number:
        return
    text, trust = _read_text(db, document, base, number)
    values = (text, len(text.encode()), trust, document, number)
    db.execute("UPDATE version SET text = ?, bytes = ?, trust = ? WHERE document = ? AND number = ?", values)
    db.execute(
        "UPDATE version SET base = ? WHERE document = ? AND base = ? AND number >= ?", (number, document, base, number)
    )


def _enforce_size(db: Connection, most: int) -> None:
    """Delete old versions until the memory fits, beginning with the document whose old versions are largest.

    Raises:
        MemoryStoreError: the documents do not fit even without old versions.
    """
    while db.execute("SELECT coalesce(sum(bytes + old_bytes), 0) FROM document").fetchone()[0] > most:
        found = db.execute("SELECT id FROM document WHERE old_bytes > 0 ORDER BY old_bytes DESC, id LIMIT 1").fetchone()
        if found is None:
            raise _full_error(f"{most:,} bytes")
        query = "SELECT count(*) FROM version WHERE document = ? AND number < (SELECT base FROM document WHERE id = ?)"
        old = db.execute(query, (found[0], found[0])).fetchone()[0]
        _prune(db, found[0], old // 2)


def _is_full(db: Connection, table: str, most: int) -> bool:
    """Return whether a table has `most` rows. Rows are counted only if the highest ID, from 1, is at least `most`."""
    if (db.execute(f"SELECT max(id) FROM {table}").fetchone()[0] or 0) < most:  # noqa: S608 - a constant
        return False
    count: int = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
    return count >= most


def _full_error(limit: str) -> MemoryStoreError:
    hint = "remove documents that you no longer need: wasmrt memory remove PATH"
    return MemoryStoreError(f"the memory is full: the maximum is {limit}", code="memory-full", hint=hint)
