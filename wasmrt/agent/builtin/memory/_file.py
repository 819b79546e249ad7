"""The memory of each user in a private SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wasmrt.agent.builtin.memory._words import index_text, match_query
from wasmrt.core.database import Database
from wasmrt.core.errors import MemoryStoreError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.places import find_places
from wasmrt.runtime.workspace import folder_name

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
_STEPS = 20_000
"""Number of SQLite instructions between two checks of a call's deadline."""


class FileMemory:
    """The files, one for each user. No file stays open between calls."""

    joined_vectors = "group_concat(chunk), CAST(group_concat(value, '') AS BLOB)"

    def __init__(self, folder: Path | None) -> None:
        """If no folder is given, the files are in the data folder."""
        self._folder = folder

    @contextmanager
    def reading(self, user: str, lifetime: Lifetime | None) -> Iterator[sqlite3.Connection | None]:
        """Open a user's file, or yield None if it does not exist. All queries see the same state."""
        database = self._database(user)
        if database.status() is None:
            yield None
            return
        with database.reading() as db, _interrupt_at_deadline(db, lifetime):
            db.execute("BEGIN")
            yield db

    @contextmanager
    def writing(self, user: str, lifetime: Lifetime | None) -> Iterator[sqlite3.Connection]:
        """Open a transaction on a user's file, which is created on first use."""
        with self._database(user).writing() as db, _interrupt_at_deadline(db, lifetime):
            yield db

    @contextmanager
    def scrubbing(self, user: str) -> Iterator[sqlite3.Connection]:
        """Open a transaction. After it, the file no longer contains the data that it deletes."""
        with self._database(user).writing(scrub=True) as db:
            yield db
            db.execute("INSERT INTO word (word) VALUES ('optimize')")  # rewrites the index with the deleted words

    def is_within(self, db: sqlite3.Connection, size: int) -> bool:
        """Return whether the file has at most `size` bytes. It contains every byte of the texts."""
        (pages,), (page_size,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
        return bool(pages * page_size <= size)

    def search_text(self, db: sqlite3.Connection, question: str, limit: int) -> list[tuple[int, float]]:
        """Return the chunks that contain words of a question, and their scores (BM25), best first."""
        query = match_query(question)
        if query is None:
            return []
        select = "SELECT rowid, -rank FROM word WHERE word MATCH ? ORDER BY rank, rowid LIMIT ?"
        return db.execute(select, (query, limit)).fetchall()

    def add_words(self, db: sqlite3.Connection, chunk: int, text: str) -> None:
        """Add a chunk to the full-text index."""
        db.execute("INSERT INTO word (rowid, words) VALUES (?, ?)", (chunk, index_text(text)))

    def _database(self, user: str) -> Database:
        folder = self._folder or find_places().memory
        return Database(folder / f"{folder_name(user)}.sqlite3", SCHEMA, VERSION, unusable=_unusable_error)


@contextmanager
def _interrupt_at_deadline(db: sqlite3.Connection, lifetime: Lifetime | None) -> Iterator[None]:
    """End queries at the deadline of the surrounding call."""
    if lifetime is None:
        yield
        return
    lifetime.check()
    db.set_progress_handler(lambda: lifetime.is_over, _STEPS)
    try:
        yield
    except sqlite3.OperationalError:
        lifetime.check()
        raise
    finally:
        db.set_progress_handler(None, 0)  # the end of the transaction must not be interrupted


def _unusable_error(reason: str) -> MemoryStoreError:
    return MemoryStoreError(
        f"cannot use the memory ({reason})",
        hint="nothing was changed; check the folder memory in the data folder, which wasmrt doctor shows",
    )
