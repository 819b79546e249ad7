"""MemoryStore: the memory of an agent's users, a private database for each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from wasmrt.agent.builtin.memory import _rows, _search
from wasmrt.agent.builtin.memory._in_c import by_vector
from wasmrt.agent.builtin.memory._model import (
    Author,
    MemoryDocument,
    MemoryEntry,
    MemoryFindings,
    MemoryVersion,
    Trust,
)
from wasmrt.agent.builtin.memory._paths import decide_write, read_path
from wasmrt.agent.builtin.memory._vectors import unit_vectors
from wasmrt.capabilities import plain_path
from wasmrt.core.database import Database
from wasmrt.core.errors import InvalidParametersError, MemoryStoreError, NotAuthorizedError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_MEMORY_QUERY_CHARS, MAX_MEMORY_RESULTS
from wasmrt.core.names import path_key
from wasmrt.core.places import find_places
from wasmrt.runtime.memory import Embedder, MemorySettings
from wasmrt.runtime.workspace import folder_name

_STEPS = 20_000
"""Instructions of SQLite between two looks at the time of a call."""
_EMBED_AT_ONCE = 32
_EMBED_PER_CALL = 1024
"""Pieces that one call makes vectors of, where they have none yet; the others wait for the next call."""


class MemoryStore:
    """The memory of all users of one operator. Holds nothing open; threads and processes may share it.

    Every method takes the user whose memory it is, and reaches no other's. `lifetime` is the time of the call that it
    is part of. Each raises MemoryStoreError where the database cannot be used (`memory-store`), and changes nothing.
    """

    def __init__(self, settings: MemorySettings | None = None) -> None:
        self.settings = settings or MemorySettings()
        self._folder = self.settings.path

    def write(
        self,
        user: str,
        path: str,
        content: str,
        *,
        append: bool = True,
        trust: Trust = Trust.UNKNOWN,
        author: Author = Author.TOOL,
        lifetime: Lifetime | None = None,
    ) -> MemoryVersion:
        """Write a text to a document: behind what it holds, or in place of it. What it held before is kept.

        Raises:
            NotAuthorizedError: a tool writes a file that says what the agent is (`protected-file`).
            InvalidParametersError: the path is none, or the text is empty or no text.
            MemoryStoreError: it does not fit (`memory-too-large`, `memory-full`).
        """
        if author is Author.TOOL and (refused := decide_write(path)) is not None:
            raise NotAuthorizedError.of(refused)
        name = read_path(path)
        _check_text(content)
        with self._writing(user, lifetime) as db:
            return _rows.add(db, self.settings, name, content, append=append, trust=trust, author=author)

    def read(self, user: str, path: str, *, version: int | None = None) -> MemoryDocument:
        """Return a document, by default its newest version.

        Raises:
            InvalidParametersError: the path is none.
            MemoryStoreError: there is no such document or version (`memory-not-found`).
        """
        with self._document(user, path) as (db, row):
            return _rows.content(db, row, version)

    def search(self, user: str, query: str, *, limit: int = 5, lifetime: Lifetime | None = None) -> MemoryFindings:
        """Return the pieces of documents that fit a question best, by words, and by vectors where there are some.

        Raises:
            InvalidParametersError: the question is empty or too long, or the limit is out of its range.
        """
        if not isinstance(query, str) or not query.strip() or len(query) > MAX_MEMORY_QUERY_CHARS:
            raise InvalidParametersError(f"the query is a text of up to {MAX_MEMORY_QUERY_CHARS:,} characters")
        _check_text(query)
        if not 1 <= limit <= MAX_MEMORY_RESULTS:
            raise InvalidParametersError(f"limit is a whole number from 1 to {MAX_MEMORY_RESULTS}")
        vector, note = self._vector(user, query, lifetime)
        with self._reading(user, lifetime) as db:
            if db is None:
                return MemoryFindings((), "full-text" if vector is None else "hybrid", note)
            words = _search.by_words(db, query)
            near = [] if vector is None else by_vector(db, self._embedder.name, vector, _search.CANDIDATES)
            scored = _search.fused([words] if vector is None else [words, near])[:limit]
            found = _search.hits(db, scored, words, near)
        return MemoryFindings(found, "full-text" if vector is None else "hybrid", note)

    def entries(self, user: str, path: str = "", *, lifetime: Lifetime | None = None) -> list[MemoryEntry]:
        """Return the documents below a folder, all of them where none is named, sorted by path.

        Raises:
            InvalidParametersError: the path is none.
        """
        prefix = f"{path_key(read_path(path))}/" if plain_path(path) else ""
        # The text is compared, and not a pattern: a path may hold the characters of one.
        query = (
            "SELECT path, bytes, number, updated_ms, max(named, (SELECT max(trust) FROM version v "
            "WHERE v.document = d.id AND v.number >= d.base)) FROM document d WHERE substr(key, 1, ?) = ? ORDER BY key"
        )
        with self._reading(user, lifetime) as db:
            rows = [] if db is None else db.execute(query, (len(prefix), prefix)).fetchall()
            return [MemoryEntry(path, size, number, Trust(trust), ms) for path, size, number, ms, trust in rows]

    def history(self, user: str, path: str) -> list[MemoryVersion]:
        """Return the versions of a document that are kept, the newest first.

        Raises:
            InvalidParametersError: the path is none.
            MemoryStoreError: there is no such document (`memory-not-found`).
        """
        with self._document(user, path) as (db, row):
            return _rows.history(db, row)

    def restore(self, user: str, path: str, version: int) -> MemoryVersion:
        """Make an older version the newest again, with the trust that it had; for a person.

        Raises:
            InvalidParametersError: the path is none.
            MemoryStoreError: there is no such document or version (`memory-not-found`).
        """
        name = self._check_there(user, path)
        with self._writing(user, None) as db:
            old = _rows.content(db, _rows.get(db, name), version)
            return _rows.add(db, self.settings, name, old.content, append=False, trust=old.trust, author=Author.PERSON)

    def remove(self, user: str, path: str) -> None:
        """Remove a document with all of its versions from the file, for good; for a person.

        Raises:
            InvalidParametersError: the path is none.
            MemoryStoreError: there is no such document (`memory-not-found`).
        """
        name = self._check_there(user, path)
        with self._writing(user, None, scrub=True) as db:
            _rows.remove(db, _rows.get(db, name))

    def embed_missing(self, user: str, *, lifetime: Lifetime | None = None) -> int:
        """Make vectors of pieces that have none of the present embedder, as many as one call may; return how many.

        Raises:
            MemoryStoreError: the embedder failed (`embedder`).
        """
        if self.settings.embedder is None:
            return 0
        embedder, made = self._embedder, 0
        query = (
            "SELECT c.id, substr(v.text, c.start + 1, c.length) FROM chunk c "
            "JOIN version v ON v.document = c.document AND v.number = c.number "
            "LEFT JOIN vector e ON e.chunk = c.id AND e.model = ? WHERE e.chunk IS NULL LIMIT ?"
        )
        with self._reading(user, lifetime) as db:
            waiting = [] if db is None else db.execute(query, (embedder.name, _EMBED_PER_CALL)).fetchall()
        for start in range(0, len(waiting), _EMBED_AT_ONCE):
            part = waiting[start : start + _EMBED_AT_ONCE]
            if lifetime is not None:
                lifetime.check()
            vectors = unit_vectors(embedder, [text for _, text in part])
            made += self._keep(user, embedder, [chunk for chunk, _ in part], vectors, lifetime)
        return made

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _embedder(self) -> Embedder:
        assert self.settings.embedder is not None
        return self.settings.embedder

    def _keep(
        self, user: str, embedder: Embedder, chunks: Sequence[int], vectors: Sequence[bytes], lifetime: Lifetime | None
    ) -> int:
        """Keep vectors of pieces that are still there; return how many."""
        insert = "INSERT OR REPLACE INTO vector SELECT id, ?, ? FROM chunk WHERE id = ?"
        with self._writing(user, lifetime) as db:
            values = zip(vectors, chunks, strict=True)
            return sum(db.execute(insert, (embedder.name, vector, chunk)).rowcount for vector, chunk in values)

    def _vector(self, user: str, query: str, lifetime: Lifetime | None) -> tuple[bytes | None, str]:
        """Return the vector of a question; None, and the reason, where words alone are to be searched."""
        if self.settings.embedder is None:
            return None, ""
        try:
            self.embed_missing(user, lifetime=lifetime)
            return unit_vectors(self._embedder, [query])[0], ""
        except MemoryStoreError as error:
            if error.code != "embedder":
                raise
            return None, f"{error.message}; words alone were searched"

    def _database(self, user: str) -> Database:
        folder = self._folder or find_places().memory
        return Database(folder / f"{folder_name(user)}.sqlite3", _rows.SCHEMA, _rows.VERSION, unusable=_unusable)

    def _check_there(self, user: str, path: str) -> str:
        """Return the path of a document, so that no file is made where there is none."""
        with self._document(user, path) as (_, row):
            return row.path

    @contextmanager
    def _document(self, user: str, path: str) -> Iterator[tuple[sqlite3.Connection, _rows.Row]]:
        name = read_path(path)
        with self._reading(user, None) as db:
            if db is None:
                raise _rows.absent(name)
            yield db, _rows.get(db, name)

    @contextmanager
    def _reading(self, user: str, lifetime: Lifetime | None) -> Iterator[sqlite3.Connection | None]:
        database = self._database(user)
        if database.status() is None:
            yield None
            return
        with database.reading() as db, _bounded(db, lifetime):
            db.execute("BEGIN")  # every query of it sees one state
            yield db

    @contextmanager
    def _writing(self, user: str, lifetime: Lifetime | None, *, scrub: bool = False) -> Iterator[sqlite3.Connection]:
        with self._database(user).writing(scrub=scrub) as db, _bounded(db, lifetime):
            yield db


@contextmanager
def _bounded(db: sqlite3.Connection, lifetime: Lifetime | None) -> Iterator[None]:
    """End a query at the deadline of its call."""
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
        db.set_progress_handler(None, 0)  # what follows is the end of the transaction


def _check_text(text: str) -> None:
    if not isinstance(text, str) or not text.strip():
        raise InvalidParametersError("there is no text to remember", hint="pass the text as content")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidParametersError("the text is not valid Unicode", hint="pass whole characters") from None
    if "\0" in text:
        raise InvalidParametersError("the text holds a NUL character", hint="leave it out")


def _unusable(reason: str) -> MemoryStoreError:
    return MemoryStoreError(
        f"the memory cannot be used ({reason})",
        hint="nothing was changed; check the folder memory in the data folder that wasmrt doctor names",
    )
