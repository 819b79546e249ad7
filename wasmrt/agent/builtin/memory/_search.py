"""Search of an agent's memory: full text and vectors over chunks of documents, merged by reciprocal rank fusion."""

from __future__ import annotations

import heapq
import math
import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from operator import mul

from wasmrt.agent.builtin.memory._model import MemoryHit, Trust
from wasmrt.core.errors import MemoryStoreError
from wasmrt.core.limits import MAX_EMBEDDING_DIMENSIONS, MAX_MEMORY_QUERY_WORDS
from wasmrt.core.normal_form import normalize
from wasmrt.runtime.memory import Embedder

CHUNK_CHARS = 1600
"""Maximum length of a chunk: about 400 tokens."""
_OVERLAP_CHARS = 200
_ENDS = ("\n\n", "\n", ". ", " ")
"""Text after which a chunk may end, in order of preference."""
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Kana, Han and Hangul, which do not separate all words by spaces. Each character is indexed as a word."""
_EACH = re.compile(f"([{_UNSPACED}])")
_WORDS = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])\w)+")
_MAX_WORD_CHARS = 64


def split_into_chunks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and length of each chunk of a text: at most `CHUNK_CHARS` long, with a small overlap."""
    start = 0
    while start < len(text):
        end = _chunk_end(text, start)
        if not text[start:end].isspace():
            yield start, end - start
        if end == len(text):
            return
        blank = text.find(" ", end - _OVERLAP_CHARS, end)
        start = blank + 1 if blank >= 0 else end


def index_text(text: str) -> str:
    """Return a text normalized for the full-text index."""
    return _EACH.sub(r" \1 ", normalize("NFKC", text).casefold())


def match_query(question: str) -> str | None:
    """Return a full-text query that matches any word of a question, or None if it has no words.

    SECURITY: the full-text index has a query language (quotes, NEAR, columns, *). The query contains only quoted
    words, so a question cannot use that language.
    """
    plain = normalize("NFKC", question).casefold()
    words = dict.fromkeys(found[0][:_MAX_WORD_CHARS] for found in _WORDS.finditer(plain))
    phrases = [" ".join(_EACH.sub(r" \1 ", word).split()) for word in words]
    return " OR ".join(f'"{phrase}"' for phrase in phrases[:MAX_MEMORY_QUERY_WORDS]) or None


def _chunk_end(text: str, start: int) -> int:
    most = start + CHUNK_CHARS
    if most >= len(text):
        return len(text)
    least = start + CHUNK_CHARS // 2
    for mark in _ENDS:
        found = text.rfind(mark, least, most)
        if found >= 0:
            return found + len(mark)
    return most


def unit_vectors(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    """Return the vectors of texts, normalized to length 1, as 32-bit floats.

    Raises:
        MemoryStoreError: the embedder failed, or did not return one vector for each text.
    """
    try:
        found = [array("f", map(float, vector)) for vector in embedder.embed(texts)]
        lengths = {len(vector) for vector in found}
        if len(found) != len(texts) or len(lengths) != 1 or not 1 <= lengths.pop() <= MAX_EMBEDDING_DIMENSIONS:
            raise _embedder_error(f"did not return {len(texts)} vectors of one length")
        return [_normalize(vector) for vector in found]
    except MemoryStoreError:
        raise
    except Exception as error:  # embedders are third-party code and may raise anything
        raise _embedder_error(f"failed with {type(error).__name__}") from error


def find_nearest(query: bytes, candidates: Iterable[tuple[int, bytes]], most: int) -> list[int]:
    """Return the keys of the vectors nearest to `query` by cosine similarity, nearest first.

    Vectors whose similarity is not positive are omitted.
    """
    wanted = array("f", query)
    size = len(query)
    scored = ((sum(map(mul, wanted, array("f", kept))), -key) for key, kept in candidates if len(kept) == size)
    return [-key for score, key in heapq.nlargest(most, scored) if score > 0]


def _normalize(vector: array[float]) -> bytes:
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not math.isfinite(length):
        raise _embedder_error("returned a number that is not finite")
    return array("f", (part / length for part in vector)).tobytes() if length else vector.tobytes()


def _embedder_error(what: str) -> MemoryStoreError:
    hint = "check the embedder; the full-text search still works"
    return MemoryStoreError(f"the embedder {what}", code="embedder", hint=hint)


def search_vectors(db: sqlite3.Connection, model: str, vector: bytes, most: int) -> list[int]:
    """Return the chunks whose vectors are nearest to `vector` by cosine similarity, nearest first."""
    if vector_fallback_reason() or not _load_extension(db):
        kept = db.execute("SELECT chunk, value FROM vector WHERE model = ?", (model,))
        return find_nearest(vector, kept, most)
    found = db.execute(
        "SELECT chunk, CASE length(value) WHEN length(?1) THEN vec_distance_cosine(value, ?1) END AS distance "
        "FROM vector WHERE model = ?2 AND distance < 1 ORDER BY distance, chunk LIMIT ?3",
        (vector, model, most),
    )
    return [chunk for chunk, _ in found]


def vector_fallback_reason() -> str:
    """Return the reason why vectors are compared in Python, or an empty string if sqlite-vec compares them in C."""
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        return "this Python's sqlite3 cannot load extensions"
    if find_spec("sqlite_vec") is None:
        return 'sqlite-vec is not installed: pip install "wasmrt[vectors]"'
    return ""


def _load_extension(db: sqlite3.Connection) -> bool:
    """Load sqlite-vec into a connection, and return whether it could be loaded."""
    import sqlite_vec

    db.enable_load_extension(True)
    try:
        db.load_extension(sqlite_vec.loadable_path())
    except sqlite3.OperationalError:  # built for a different system
        return False
    finally:
        # SECURITY: while loading is enabled, SQL could load any other library.
        db.enable_load_extension(False)
    return True


RRF_K = 60
"""Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion", SIGIR 2009, section 2."""
CANDIDATES = 50
"""Results of each kind of search before they are merged."""


def search_text(db: sqlite3.Connection, question: str) -> list[int]:
    """Return the chunks that contain words of a question, best first (BM25)."""
    query = match_query(question)
    if query is None:
        return []
    found = db.execute("SELECT rowid FROM word WHERE word MATCH ? ORDER BY rank, rowid LIMIT ?", (query, CANDIDATES))
    return [chunk for (chunk,) in found]


def fuse_rankings(rankings: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Return the chunks of several rankings with their scores, best first. First place in all of them scores 1."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, chunk in enumerate(ranking, 1):
            scores[chunk] = scores.get(chunk, 0.0) + 1 / (RRF_K + place)
    best = len(rankings) / (RRF_K + 1)
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [(chunk, score / best) for chunk, score in ordered]


def load_hits(
    db: sqlite3.Connection, scored: Iterable[tuple[int, float]], words: Sequence[int], near: Sequence[int]
) -> tuple[MemoryHit, ...]:
    """Return the text of chunks, and the kinds of search that found each."""
    query = (
        "SELECT d.path, substr(v.text, c.start + 1, c.length), max(v.trust, d.named), d.updated_ms FROM chunk c "
        "JOIN document d ON d.id = c.document JOIN version v ON v.document = c.document AND v.number = c.number "
        "WHERE c.id = ?"
    )
    found = []
    for chunk, score in scored:
        path, text, trust, updated_ms = db.execute(query, (chunk,)).fetchone()
        ways = ("text",) * (chunk in words) + ("vector",) * (chunk in near)
        found.append(MemoryHit(path, text, round(score, 6), ways, Trust(trust), updated_ms))
    return tuple(found)
