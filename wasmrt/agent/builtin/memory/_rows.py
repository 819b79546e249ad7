"""Documents in the database: versions that are only ever added, and the pieces of what a document holds now.

A version is what one write added. One that replaced the document begins a chain, and is its own `base`; one that was
appended has the base of the version before. A document at a version is the texts from its base up to it.
"""

from __future__ import annotations

import sqlite3
import time
from typing import NamedTuple

from wasmrt.agent.builtin.memory._model import Author, MemoryDocument, MemoryVersion, Trust
from wasmrt.agent.builtin.memory._paths import is_target
from wasmrt.agent.builtin.memory._text import index_text, pieces
from wasmrt.core.errors import MemoryStoreError
from wasmrt.core.limits import MAX_MEMORY_CHUNKS, MAX_MEMORY_DOCUMENTS
from wasmrt.core.names import path_key
from wasmrt.runtime.memory import MemorySettings

VERSION = 1
SCHEMA = """
CREATE TABLE document (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, path TEXT NOT NULL, number INTEGER NOT NULL,
    base INTEGER NOT NULL, bytes INTEGER NOT NULL, old_bytes INTEGER NOT NULL, updated_ms INTEGER NOT NULL,
    named INTEGER NOT NULL
);
CREATE TABLE version (
    document INTEGER NOT NULL, number INTEGER NOT NULL, base INTEGER NOT NULL, text TEXT NOT NULL,
    bytes INTEGER NOT NULL, trust INTEGER NOT NULL, author INTEGER NOT NULL, made_ms INTEGER NOT NULL,
    UNIQUE (document, number)
);
CREATE TABLE chunk (
    id INTEGER PRIMARY KEY, document INTEGER NOT NULL, number INTEGER NOT NULL, start INTEGER NOT NULL,
    length INTEGER NOT NULL
);
CREATE INDEX chunk_document ON chunk (document);
CREATE TABLE vector (chunk INTEGER PRIMARY KEY, model TEXT NOT NULL, value BLOB NOT NULL);
CREATE VIRTUAL TABLE word USING fts5 (words, tokenize = "porter unicode61 remove_diacritics 2");
"""


class Row(NamedTuple):
    """A document as it stands in the database."""

    id: int
    path: str
    number: int
    """Of its newest version."""
    base: int
    """The version that its present content begins with."""
    bytes: int
    """Of its present content."""
    old_bytes: int
    """Of the versions before its base."""
    updated_ms: int
    named: Trust
    """The trust of whoever chose its path, which is a text as well."""


def find(db: sqlite3.Connection, path: str) -> Row | None:
    """Return the document of a path, in whatever case it is written."""
    columns = "id, path, number, base, bytes, old_bytes, updated_ms, named"
    found = db.execute(f"SELECT {columns} FROM document WHERE key = ?", (path_key(path),)).fetchone()  # noqa: S608
    return None if found is None else Row(*found)._replace(named=Trust(found[-1]))


def get(db: sqlite3.Connection, path: str) -> Row:
    """Return the document of a path.

    Raises:
        MemoryStoreError: there is none.
    """
    found = find(db, path)
    if found is None:
        raise absent(path)
    return found


def absent(path: str) -> MemoryStoreError:
    """Return the error that there is no such document."""
    hint = "wasmrt memory list, or memory_tree, shows what there is"
    return MemoryStoreError(f"the memory has no {path!r:.200}", code="memory-not-found", hint=hint)


def content(db: sqlite3.Connection, row: Row, number: int | None = None) -> MemoryDocument:
    """Return a document as a version has it, by default the newest.

    Raises:
        MemoryStoreError: there is no such version, or no longer.
    """
    number = row.number if number is None else number
    query = "SELECT base, made_ms FROM version WHERE document = ? AND number = ?"
    known = 0 < number <= row.number  # a number may be larger than those of the database
    found = db.execute(query, (row.id, number)).fetchone() if known else None
    if found is None:
        raise MemoryStoreError(
            f"{row.path!r:.200} has no version {number}", code="memory-not-found",
            hint="wasmrt memory history PATH shows those that are kept",
        )  # fmt: skip
    base, made_ms = found
    text, trust = _joined(db, row.id, base, number)
    return MemoryDocument(row.path, text, number, max(row.named, trust), made_ms)


def history(db: sqlite3.Connection, row: Row) -> list[MemoryVersion]:
    """Return the versions of a document that are kept, the newest first."""
    query = "SELECT number, bytes, base, trust, author, made_ms FROM version WHERE document = ? ORDER BY number DESC"
    return [
        MemoryVersion(row.path, number, size, number > base, Trust(trust), Author(author), made_ms)
        for number, size, base, trust, author, made_ms in db.execute(query, (row.id,)).fetchall()
    ]


def add(
    db: sqlite3.Connection,
    settings: MemorySettings,
    path: str,
    text: str,
    *,
    append: bool,
    trust: Trust,
    author: Author,
) -> MemoryVersion:
    """Add a version to a document, which is made where there is none, and return it.

    Raises:
        MemoryStoreError: a bound is reached.
    """
    row = find(db, path) or _made(db, path, trust)
    if author is Author.PERSON:
        db.execute("UPDATE document SET named = ? WHERE id = ?", (Trust.TRUSTED, row.id))
    appended = append and row.bytes > 0
    text = _joint(db, row) + text if appended else text
    size, number = len(text.encode()), row.number + 1
    present = row.bytes + size if appended else size
    if present > settings.max_document_bytes:
        hint = "write a shorter text, or to another path"
        said = f"the document would have more than {settings.max_document_bytes:,} bytes"
        raise MemoryStoreError(said, code="memory-too-large", hint=hint)
    base, now = row.base if appended else number, time.time_ns() // 1_000_000
    values = (row.id, number, base, text, size, trust, author, now)
    db.execute("INSERT INTO version VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    old = row.old_bytes if appended else row.old_bytes + row.bytes
    changed = (number, base, present, old, now, row.id)
    db.execute(
        "UPDATE document SET number = ?, base = ?, bytes = ?, old_bytes = ?, updated_ms = ? WHERE id = ?", changed
    )
    if not appended:
        forget_pieces(db, row.id)
    _add_pieces(db, row.id, number, row.path, text)
    _prune(db, row.id, settings.max_versions)
    _make_room(db, settings.max_user_bytes)
    return MemoryVersion(row.path, number, size, appended, trust, author, now)


def remove(db: sqlite3.Connection, row: Row) -> None:
    """Remove a document with every version."""
    forget_pieces(db, row.id)
    db.execute("DELETE FROM version WHERE document = ?", (row.id,))
    db.execute("DELETE FROM document WHERE id = ?", (row.id,))
    db.execute("INSERT INTO word (word) VALUES ('optimize')")  # rewrites the index, where words of it may be left


def forget_pieces(db: sqlite3.Connection, document: int) -> None:
    """Have a document no longer found."""
    of_it = "(SELECT id FROM chunk WHERE document = ?)"
    db.execute(f"DELETE FROM word WHERE rowid IN {of_it}", (document,))  # noqa: S608 - no value is put in
    db.execute(f"DELETE FROM vector WHERE chunk IN {of_it}", (document,))  # noqa: S608
    db.execute("DELETE FROM chunk WHERE document = ?", (document,))


def _made(db: sqlite3.Connection, path: str, trust: Trust) -> Row:
    if db.execute("SELECT count(*) FROM document").fetchone()[0] >= MAX_MEMORY_DOCUMENTS:
        raise _full(f"{MAX_MEMORY_DOCUMENTS:,} documents")
    named = Trust.TRUSTED if is_target(path) else trust
    made = db.execute("INSERT INTO document VALUES (NULL, ?, ?, 0, 0, 0, 0, 0, ?)", (path_key(path), path, named))
    return Row(made.lastrowid or 0, path, 0, 0, 0, 0, 0, named)


def _joined(db: sqlite3.Connection, document: int, base: int, number: int) -> tuple[str, Trust]:
    """Return what a document is at a version, whose chain begins at `base`, and the trust of all of it."""
    query = "SELECT text, trust FROM version WHERE document = ? AND number BETWEEN ? AND ? ORDER BY number"
    parts = db.execute(query, (document, base, number)).fetchall()
    return "".join(part for part, _ in parts), max(Trust(trust) for _, trust in parts)


def _joint(db: sqlite3.Connection, row: Row) -> str:
    query = "SELECT substr(text, -1) FROM version WHERE document = ? AND number = ?"
    last = db.execute(query, (row.id, row.number)).fetchone()
    return "" if last is not None and last[0] == "\n" else "\n"


def _add_pieces(db: sqlite3.Connection, document: int, number: int, path: str, text: str) -> None:
    held = db.execute("SELECT count(*) FROM chunk").fetchone()[0]
    for start, length in pieces(text):
        held += 1
        if held > MAX_MEMORY_CHUNKS:
            raise _full(f"{MAX_MEMORY_CHUNKS:,} pieces of text")
        made = db.execute("INSERT INTO chunk VALUES (NULL, ?, ?, ?, ?)", (document, number, start, length))
        words = index_text(f"{path}\n{text[start : start + length]}")  # found by its name as well
        db.execute("INSERT INTO word (rowid, words) VALUES (?, ?)", (made.lastrowid, words))


def _prune(db: sqlite3.Connection, document: int, most: int) -> None:
    """Drop the oldest versions of a document beyond `most`, besides those that its present content is made of."""
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


def _begin_chain(db: sqlite3.Connection, document: int, number: int) -> None:
    """Have a version hold all of its document, so that those before can go."""
    base = db.execute("SELECT base FROM version WHERE document = ? AND number = ?", (document, number)).fetchone()[0]
    if base == number:
        return
    text, trust = _joined(db, document, base, number)
    values = (text, len(text.encode()), trust, document, number)
    db.execute("UPDATE version SET text = ?, bytes = ?, trust = ? WHERE document = ? AND number = ?", values)
    db.execute(
        "UPDATE version SET base = ? WHERE document = ? AND base = ? AND number >= ?", (number, document, base, number)
    )


def _make_room(db: sqlite3.Connection, most: int) -> None:
    """Drop old versions of the documents that have most of them, until all of it fits.

    Raises:
        MemoryStoreError: what the documents hold now is too much by itself.
    """
    while db.execute("SELECT total(bytes + old_bytes) FROM document").fetchone()[0] > most:
        found = db.execute("SELECT id FROM document WHERE old_bytes > 0 ORDER BY old_bytes DESC, id LIMIT 1").fetchone()
        if found is None:
            raise _full(f"{most:,} bytes")
        query = "SELECT count(*) FROM version WHERE document = ? AND number < (SELECT base FROM document WHERE id = ?)"
        old = db.execute(query, (found[0], found[0])).fetchone()[0]
        _prune(db, found[0], old // 2)


def _full(bound: str) -> MemoryStoreError:
    hint = "remove what is no longer needed: wasmrt memory remove PATH"
    return MemoryStoreError(f"the memory is full: it holds {bound}", code="memory-full", hint=hint)
