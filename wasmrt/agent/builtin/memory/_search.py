"""Search of an agent's memory: full text and vectors over chunks of documents, merged by their scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wasmrt.agent.builtin.memory._model import MemoryHit, Trust
from wasmrt.core.database import Connection
from wasmrt.core.errors import MemoryStoreError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_EMBEDDING_DIMENSIONS
from wasmrt.runtime.memory import Embedder

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

CHUNK_CHARS = 1600
"""Maximum length of a chunk: about 400 tokens."""
_OVERLAP_CHARS = 200
_ENDS = ("\n\n", "\n", ". ", " ")
"""Text after which a chunk may end, in order of preference."""
CANDIDATES = 200
"""Results of each kind of search before they are merged."""
_COMPARE_AT_ONCE = 1024
"""Number of vectors that one query joins."""
_MAX_PART, _ZERO = 63, 64
"""Stored numbers are integers from -63 to 63, as the characters 1 to 127."""


class Backend(Protocol):
    """The operations that differ between SQLite and PostgreSQL, for the databases of all users."""

    joined_vectors: str
    """SQL that joins the IDs of chunks, and their vectors as bytes."""

    def reading(self, user: str, lifetime: Lifetime | None) -> AbstractContextManager[Connection | None]:
        """Open a transaction in which all queries see the same state; yield None if nothing was ever written."""

    def writing(self, user: str, lifetime: Lifetime | None) -> AbstractContextManager[Connection]:
        """Open a transaction, and commit it if the block succeeds. No other transaction can write this user's rows."""

    def scrubbing(self, user: str) -> AbstractContextManager[Connection]:
        """Open a transaction that deletes documents."""

    def is_within(self, db: Any, size: int) -> bool:
        """Return True only if the texts of a user certainly have at most `size` bytes."""

    def add_words(self, db: Any, chunk: int, text: str) -> None:
        """Add a chunk to the full-text index."""

    def search_text(self, db: Any, question: str, limit: int) -> list[tuple[int, float]]:
        """Return the chunks that contain words of a question, and their scores, best first."""


class Scored(NamedTuple):
    """A chunk with its score, found by one or several kinds of search."""

    chunk: int
    score: float


def split_into_chunks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and length of each chunk of a text: at most `CHUNK_CHARS` long, with a small overlap."""
    start = 0
    while start < len(text):
        end = _find_chunk_end(text, start)
        if not text[start:end].isspace():
            yield start, end - start
        if end == len(text):
            return
        blank = text.find(" ", end - _OVERLAP_CHARS, end)
        start = blank + 1 if blank >= 0 else end


def _find_chunk_end(text: str, start: int) -> int:
    most = start + CHUNK_CHARS
    if most >= len(text):
        return len(text)
    least = start + CHUNK_CHARS // 2
    for mark in _ENDS:
        found = text.rfind(mark, least, most)
        if found >= 0:
            return found + len(mark)
    return most


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> list[str]:
    """Compute the vectors of texts, in the stored form: one ASCII character for each number.

    The database can join such strings, so that a search reads thousands of vectors in one row.

    Raises:
        MemoryStoreError: numpy is missing, or the embedder failed or did not return one vector for each text.
    """
    if problem := vector_problem():
        raise MemoryStoreError(problem, code="embedder", hint="the full-text search still works")
    import numpy  # takes 0.1 s, and only memories with an embedder need it

    try:
        found = numpy.array(embedder.embed(texts), numpy.float32)
    except Exception as error:  # embedders are third-party code and may raise anything
        raise _embedder_error(f"failed with {type(error).__name__}") from error
    if found.ndim != 2 or len(found) != len(texts) or not 1 <= found.shape[1] <= MAX_EMBEDDING_DIMENSIONS:
        raise _embedder_error(f"did not return {len(texts)} vectors of one length")
    if not numpy.isfinite(found).all():
        raise _embedder_error("returned a number that is not finite")
    largest = abs(found).max(axis=1, keepdims=True)
    parts = numpy.rint(found / numpy.where(largest, largest, 1) * _MAX_PART) + _ZERO
    return [row.tobytes().decode("ascii") for row in parts.astype(numpy.uint8)]


def vector_problem() -> str:
    """Return the reason why vectors cannot be used, or an empty string."""
    return "" if find_spec("numpy") else 'vectors need numpy: pip install "wasmrt[vectors]"'


def search_vectors(backend: Backend, db: Connection, model: str, vector: str) -> list[Scored]:
    """Return the chunks whose vectors are nearest to `vector` by cosine similarity, nearest first.

    Vectors whose similarity is not positive are omitted.
    """
    import numpy

    wanted = _decode(vector.encode("ascii"), len(vector))[0]
    (last,) = db.execute("SELECT coalesce(max(chunk), 0) FROM vector").fetchone()
    rows = "FROM vector WHERE chunk BETWEEN ? AND ? AND model = ? AND length(value) = ?"
    query = f"SELECT {backend.joined_vectors} {rows}"
    names, parts = list[str](), [numpy.zeros(0, numpy.float32)]
    for first in range(1, last + 1, _COMPARE_AT_ONCE):
        chunks, values = db.execute(query, (first, first + _COMPARE_AT_ONCE - 1, model, len(vector))).fetchone()
        if chunks is not None:
            names += chunks.split(",")
            found = _decode(values, len(vector))
            lengths = numpy.sqrt(numpy.einsum("ij,ij->i", found, found) * (wanted @ wanted))
            parts.append(found @ wanted / numpy.maximum(lengths, 1))
    scores = numpy.concatenate(parts)
    best = numpy.argsort(-scores, kind="stable")[:CANDIDATES]
    near = [Scored(int(names[n]), float(scores[n])) for n in best if scores[n] > 0]
    return sorted(near, key=lambda each: (-each.score, each.chunk))


def _decode(values: bytes, dimensions: int) -> NDArray[float32]:
    import numpy

    parts = numpy.frombuffer(values, numpy.uint8).astype(numpy.float32)
    parts -= _ZERO
    return parts.reshape(-1, dimensions)


def _embedder_error(what: str) -> MemoryStoreError:
    hint = "check the embedder; the full-text search still works"
    return MemoryStoreError(f"the embedder {what}", code="embedder", hint=hint)


def search_text(backend: Backend, db: Any, question: str) -> list[Scored]:
    """Return the chunks that contain words of a question, best first."""
    return [Scored(chunk, score) for chunk, score in backend.search_text(db, question, CANDIDATES)]


def fuse_scores(rankings: Sequence[Sequence[Scored]]) -> list[Scored]:
    """Return the chunks of several rankings by the mean of their scores, best first.

    Scores are relative to the best score of their ranking. First place in all rankings scores 1. Method: Bruch, Gai
    and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023.
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for chunk, score in ranking:
            scores[chunk] = scores.get(chunk, 0.0) + score / ranking[0].score / len(rankings)
    return sorted(map(Scored._make, scores.items()), key=lambda each: (-each.score, each.chunk))


def load_hits(
    db: Connection, scored: Iterable[Scored], words: Sequence[Scored], near: Sequence[Scored]
) -> tuple[MemoryHit, ...]:
    """Return the text of each chunk, and the kinds of search that found the chunk."""
    query = (
        "SELECT d.path, substr(v.text, c.start + 1, c.length), v.trust, d.named, d.updated_ms FROM chunk c "
        "JOIN document d ON d.id = c.document JOIN version v ON v.document = c.document AND v.number = c.number "
        "WHERE c.id = ?"
    )
    found, by_words, by_vector = [], {each.chunk for each in words}, {each.chunk for each in near}
    for chunk, score in scored:
        path, text, trust, named, updated_ms = db.execute(query, (chunk,)).fetchone()
        ways = ("text",) * (chunk in by_words) + ("vector",) * (chunk in by_vector)
        found.append(MemoryHit(path, text, round(score, 6), ways, Trust(max(trust, named)), updated_ms))
    return tuple(found)
