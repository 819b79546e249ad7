"""MemoryStore: the memory of an agent's users, with a private file for each user, or in a database of several hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wasmrt.agent.builtin.memory import _rows, _search
from wasmrt.agent.builtin.memory._file import FileMemory
from wasmrt.agent.builtin.memory._model import (
    Author,
    MemoryDocument,
    MemoryEntry,
    MemoryFindings,
    MemoryVersion,
    Trust,
    decide_write,
    read_path,
)
from wasmrt.capabilities import plain_path
from wasmrt.core.database import Connection
from wasmrt.core.errors import InvalidParametersError, MemoryStoreError, NotAuthorizedError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_MEMORY_QUERY_CHARS, MAX_MEMORY_RESULTS
from wasmrt.core.names import path_key
from wasmrt.runtime.memory import Embedder, MemorySettings

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

_EMBED_AT_ONCE = 32
_EMBED_PER_CALL = 1024
"""Maximum number of chunks that one call embeds. Later calls embed the other chunks."""


class MemoryStore:
    """The memory of all users of one operator, which threads and processes may share.

    `place` is the folder of a SQLite file for each user, by default `settings.path`, or a database of several hosts.
    Each method reaches only the memory of the given user. `lifetime` is the deadline of the surrounding call. If the
    database cannot be used, each method raises MemoryStoreError (`memory-store`) and changes nothing.
    """

    def __init__(self, settings: MemorySettings | None = None, place: Path | Postgres | None = None) -> None:
        self.settings = settings or MemorySettings()
        self._backend = _open(place or self.settings.path)

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
        """Append a text to a document, or replace its content. Earlier versions are kept.

        Raises:
            NotAuthorizedError: the author is a tool, and the file defines the agent (`protected-file`).
            InvalidParametersError: the path or the text is invalid, or the text is empty.
            MemoryStoreError: a limit is exceeded (`memory-too-large`, `memory-full`).
        """
        if author is Author.TOOL and (refused := decide_write(path)) is not None:
            raise NotAuthorizedError.of(refused)
        name = read_path(path)
        _check_text(content)
        with self._backend.writing(user, lifetime) as db:
            return self._add(db, name, content, append=append, trust=trust, author=author)

    def import_all(self, user: str, documents: Mapping[str, str]) -> list[MemoryVersion]:
        """Write a user's documents by path in one transaction: all of them, or none. Existing content is replaced.

        Raises:
            InvalidParametersError: a path or a text is invalid, or a text is empty.
            MemoryStoreError: a limit is exceeded (`memory-too-large`, `memory-full`).
        """
        texts = {read_path(path): text for path, text in documents.items()}
        for text in texts.values():
            _check_text(text)
        with self._backend.writing(user, None) as db:
            return [
                self._add(db, path, text, append=False, trust=Trust.TRUSTED, author=Author.PERSON)
                for path, text in texts.items()
            ]

    def read(self, user: str, path: str, *, version: int | None = None) -> MemoryDocument:
        """Return a document, by default its newest version.

        Raises:
            InvalidParametersError: the path is invalid.
            MemoryStoreError: there is no such document or version (`memory-not-found`).
        """
        with self._document(user, path) as (db, row):
            return _rows.read_version(db, row, version)

    def search(self, user: str, query: str, *, limit: int = 5, lifetime: Lifetime | None = None) -> MemoryFindings:
        """Return the chunks that match a question best, by full text, and by vectors if an embedder is configured.

        Raises:
            InvalidParametersError: the question is empty or too long, or the limit is out of range.
        """
        if not isinstance(query, str) or not query.strip() or len(query) > MAX_MEMORY_QUERY_CHARS:
            raise InvalidParametersError(f"query must be a string of 1 to {MAX_MEMORY_QUERY_CHARS:,} characters")
        _check_text(query)
        if not 1 <= limit <= MAX_MEMORY_RESULTS:
            raise InvalidParametersError(f"limit must be an integer from 1 to {MAX_MEMORY_RESULTS}")
        vector, note = self._embed_query(user, query, lifetime)
        with self._backend.reading(user, lifetime) as db:
            if db is None:
                return MemoryFindings((), "full-text" if vector is None else "hybrid", note)
            words = _search.search_text(self._backend, db, query)
            near = [] if vector is None else _search.search_vectors(self._backend, db, self._model, vector)
            scored = _search.fuse_scores([words] if vector is None else [words, near])[:limit]
            found = _search.load_hits(db, scored, words, near)
        return MemoryFindings(found, "full-text" if vector is None else "hybrid", note)

    def entries(self, user: str, path: str = "", *, lifetime: Lifetime | None = None) -> list[MemoryEntry]:
        """Return the documents below a folder, by default all documents, sorted by path.

        Raises:
            InvalidParametersError: the path is invalid.
        """
        prefix = f"{path_key(read_path(path))}/" if plain_path(path) else ""
        # Compare by substr, not LIKE: a path may contain % and _.
        query = (
            "SELECT path, bytes, number, updated_ms, named, (SELECT max(trust) FROM version v "
            "WHERE v.document = d.id AND v.number >= d.base) FROM document d WHERE substr(key, 1, ?) = ?"
        )
        with self._backend.reading(user, lifetime) as db:
            rows = [] if db is None else db.execute(query, (len(prefix), prefix)).fetchall()
            found = [
                MemoryEntry(path, size, number, Trust(max(named, trust)), ms)
                for path, size, number, ms, named, trust in rows
            ]
        return sorted(found, key=lambda entry: path_key(entry.path))

    def history(self, user: str, path: str) -> list[MemoryVersion]:
        """Return the stored versions of a document, newest first.

        Raises:
            InvalidParametersError: the path is invalid.
            MemoryStoreError: there is no such document (`memory-not-found`).
        """
        with self._document(user, path) as (db, row):
            return _rows.history(db, row)

    def restore(self, user: str, path: str, version: int) -> MemoryVersion:
        """Add a copy of an older version as the newest, with the same trust. Tools do not call this method.

        Raises:
            InvalidParametersError: the path is invalid.
            MemoryStoreError: there is no such document or version (`memory-not-found`).
        """
        name = self._check_existing(user, path)
        with self._backend.writing(user, None) as db:
            old = _rows.read_version(db, _rows.get(db, name), version)
            return self._add(db, name, old.content, append=False, trust=old.trust, author=Author.PERSON)

    def remove(self, user: str, path: str) -> None:
        """Remove a document with all its versions permanently. Tools do not call this method.

        Raises:
            InvalidParametersError: the path is invalid.
            MemoryStoreError: there is no such document (`memory-not-found`).
        """
        name = self._check_existing(user, path)
        with self._backend.scrubbing(user) as db:
            _rows.remove(db, _rows.get(db, name))

    def embed_missing(self, user: str, *, lifetime: Lifetime | None = None) -> int:
        """Embed chunks that have no vector of the current embedder, up to the limit of one call; return their number.

        Raises:
            MemoryStoreError: the embedder failed (`embedder`).
        """
        if self.settings.embedder is None:
            return 0
        embedder, made = self._embedder, 0
        complete = "SELECT (SELECT count(*) FROM chunk) = (SELECT count(*) FROM vector WHERE model = ?)"
        query = (
            "SELECT c.id, substr(v.text, c.start + 1, c.length) FROM chunk c "
            "JOIN version v ON v.document = c.document AND v.number = c.number "
            "LEFT JOIN vector e ON e.chunk = c.id AND e.model = ? WHERE e.chunk IS NULL LIMIT ?"
        )
        with self._backend.reading(user, lifetime) as db:
            if db is None or db.execute(complete, (self._model,)).fetchone()[0]:
                return 0
            missing = db.execute(query, (self._model, _EMBED_PER_CALL)).fetchall()
        for start in range(0, len(missing), _EMBED_AT_ONCE):
            part = missing[start : start + _EMBED_AT_ONCE]
            if lifetime is not None:
                lifetime.check()
            vectors = _search.embed_texts(embedder, [text for _, text in part])
            made += self._store_vectors(user, [chunk for chunk, _ in part], vectors, lifetime)
        return made

    def _add(
        self, db: Connection, path: str, text: str, *, append: bool, trust: Trust, author: Author
    ) -> MemoryVersion:
        return _rows.add(self._backend, db, self.settings, path, text, append=append, trust=trust, author=author)

    @property
    def _embedder(self) -> Embedder:
        assert self.settings.embedder is not None
        return self.settings.embedder

    @property
    def _model(self) -> str:
        """The name of the embedder, followed by the name of the format in which the database stores its vectors."""
        return f"{self._embedder.name}, 7-bit"

    def _store_vectors(
        self, user: str, chunks: Sequence[int], vectors: Sequence[str], lifetime: Lifetime | None
    ) -> int:
        """Store the vectors of chunks that still exist; return their number."""
        insert, stored = "INSERT INTO vector SELECT id, ?, ? FROM chunk WHERE id = ?", 0
        with self._backend.writing(user, lifetime) as db:
            for vector, chunk in zip(vectors, chunks, strict=True):
                db.execute("DELETE FROM vector WHERE chunk = ?", (chunk,))
                stored += db.execute(insert, (self._model, vector, chunk)).rowcount
        return stored

    def _embed_query(self, user: str, query: str, lifetime: Lifetime | None) -> tuple[str | None, str]:
        """Return the vector of a question; or None, and the reason, if only the full text is to be searched."""
        if self.settings.embedder is None:
            return None, ""
        try:
            self.embed_missing(user, lifetime=lifetime)
            return _search.embed_texts(self._embedder, [query])[0], ""
        except MemoryStoreError as error:
            if error.code != "embedder":
                raise
            return None, f"{error.message}; only the full text was searched"

    def _check_existing(self, user: str, path: str) -> str:
        """Check that a document exists, before a transaction would create a database, and return its path."""
        with self._document(user, path) as (_, row):
            return row.path

    @contextmanager
    def _document(self, user: str, path: str) -> Iterator[tuple[Connection, _rows.Row]]:
        name = read_path(path)
        with self._backend.reading(user, None) as db:
            if db is None:
                raise _rows.not_found_error(name)
            yield db, _rows.get(db, name)


def _open(place: Path | Postgres | None) -> _search.Backend:
    if place is None or isinstance(place, Path):
        return FileMemory(place)
    from wasmrt.agent.builtin.memory._shared import SharedMemory  # needs the extra `postgres`

    return SharedMemory(place)


def _check_text(text: str) -> None:
    if not isinstance(text, str) or not text.strip():
        raise InvalidParametersError("the text to remember is empty", hint="pass the text as content")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidParametersError("the text is not valid Unicode", hint="remove lone surrogates") from None
    if "\0" in text:
        raise InvalidParametersError("the text contains a NUL character", hint="remove it")
