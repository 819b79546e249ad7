"""The memory of all users in a PostgreSQL database that several hosts share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from wasmrt.agent.builtin.memory._words import index_text, plain_words, split_question
from wasmrt.core.database import Connection
from wasmrt.core.errors import MemoryStoreError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.postgres import Postgres
from wasmrt.runtime.workspace import folder_name

_VERSION = 1
_COLUMNS = {
    "document": (
        "id BIGINT, key TEXT, path TEXT, number BIGINT, base BIGINT, bytes BIGINT, old_bytes BIGINT, "
        "updated_ms BIGINT, named INT"
    ),
    "version": (
        "document BIGINT, number BIGINT, base BIGINT, text TEXT, bytes BIGINT, trust INT, author INT, made_ms BIGINT"
    ),
    "chunk": "id BIGINT, document BIGINT, number BIGINT, start INT, length INT",
    "vector": "chunk BIGINT, model TEXT, value TEXT",
    "word": "rowid BIGINT, lexemes TSVECTOR",
}
_KEYS = {
    "document": ("id", "key"), "version": ("document, number",), "chunk": ("id",), "vector": ("chunk",),
    "word": ("rowid",),
}  # fmt: skip
_OWNER = "current_setting('wasmrt.owner')"
_WORD_INDEX = """
CREATE TEXT SEARCH DICTIONARY stem (TEMPLATE = snowball, Language = english);
CREATE TEXT SEARCH CONFIGURATION words (PARSER = default);
ALTER TEXT SEARCH CONFIGURATION words ADD MAPPING
    FOR asciiword, word, numword, int, uint, float, sfloat, version, numhword, asciihword, hword WITH stem;
CREATE INDEX chunk_document ON owned_chunk (owner, document);
CREATE INDEX word_lexemes ON owned_word USING gin (lexemes);
"""
_ADD_WORDS = (
    "INSERT INTO word SELECT CAST(? AS BIGINT), "
    f"to_tsvector('words', CAST(? AS TEXT)) || array_to_tsvector(ARRAY['=' || {_OWNER}])"
)
"""Each row also has its owner as a lexeme, so that the index finds only the words of one owner."""
_SEARCH = f"""
WITH phrase AS (SELECT phraseto_tsquery('words', phrase) AS term FROM unnest(CAST(? AS TEXT[])) AS phrase),
asked AS MATERIALIZED (
    SELECT DISTINCT term, CAST(quote_literal('=' || {_OWNER}) AS TSQUERY) && term AS wanted
    FROM phrase WHERE numnode(term) > 0
),
hit AS MATERIALIZED (SELECT rowid, term, ts_rank(lexemes, term, 1) AS weight FROM asked JOIN word ON lexemes @@ wanted),
found AS (SELECT rowid, weight, CAST(count(*) OVER (PARTITION BY term) AS FLOAT8) AS hits FROM hit),
total AS (SELECT count(*) AS chunks FROM chunk)
SELECT rowid, sum(weight * ln(1 + (chunks - hits + CAST(0.5 AS FLOAT8)) / (hits + CAST(0.5 AS FLOAT8)))) AS score
FROM found, total GROUP BY rowid ORDER BY score DESC, rowid LIMIT ?
"""  # noqa: S608 - a constant
"""The scores resemble BM25: `ts_rank` grows ever slower with the occurrences of a word, and rare words count more."""


def _schema() -> str:
    """Return the schema. SECURITY: statements name only the views, and a view shows only the rows of one owner."""
    made = list[str]()
    for table, columns in _COLUMNS.items():
        owned = columns.replace(",", " NOT NULL,") + " NOT NULL"
        keys = "".join(f", UNIQUE (owner, {key})" for key in _KEYS[table])
        made.append(f"CREATE TABLE owned_{table} (owner TEXT NOT NULL DEFAULT {_OWNER}, {owned}{keys});")
        names = ", ".join(column.split()[0] for column in columns.split(", "))
        made.append(f"CREATE VIEW {table} AS SELECT {names} FROM owned_{table} WHERE owner = {_OWNER};")  # noqa: S608 - constants
    return "".join(made) + _WORD_INDEX


class SharedMemory:
    """The shared database. A transaction accesses one user's rows, which no other transaction can write meanwhile."""

    joined_vectors = "string_agg(CAST(chunk AS TEXT), ','), convert_to(string_agg(value, ''), 'UTF8')"

    def __init__(self, place: Postgres) -> None:
        self._database = place.open("memory", _schema(), _VERSION, unusable=_unusable_error)

    def reading(self, user: str, lifetime: Lifetime | None) -> AbstractContextManager[Connection]:
        """Open a transaction in which all queries see the same state."""
        return self._database.owned(folder_name(user), write=False, lifetime=lifetime)

    def writing(self, user: str, lifetime: Lifetime | None) -> AbstractContextManager[Connection]:
        """Open a transaction that changes a user's documents."""
        return self._database.owned(folder_name(user), write=True, lifetime=lifetime)

    @contextmanager
    def scrubbing(self, user: str) -> Iterator[Connection]:
        """Open a transaction that deletes documents. PostgreSQL decides when it overwrites deleted rows."""
        with self.writing(user, None) as db:
            yield db

    def is_within(self, db: Connection, size: int) -> bool:
        """Return False: the texts have to be added up."""
        return False

    def search_text(self, db: Connection, question: str, limit: int) -> list[tuple[int, float]]:
        """Return the chunks that contain words of a question, and their scores, best first."""
        phrases = [plain_words(phrase) for phrase in split_question(question)]
        return [(chunk, score) for chunk, score in db.execute(_SEARCH, (phrases, limit))]

    def add_words(self, db: Connection, chunk: int, text: str) -> None:
        """Add a chunk to the full-text index."""
        db.execute(_ADD_WORDS, (chunk, plain_words(index_text(text))))


def _unusable_error(reason: str) -> MemoryStoreError:
    hint = "nothing was changed; check the database of [database] with: wasmrt doctor"
    return MemoryStoreError(f"cannot use the memory ({reason})", hint=hint)
