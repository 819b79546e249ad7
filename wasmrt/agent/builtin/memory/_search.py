"""Hybrid search: by words and by vectors, put together by reciprocal rank fusion."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from wasmrt.agent.builtin.memory._model import MemoryHit, Trust
from wasmrt.agent.builtin.memory._text import match_query

RRF_K = 60
"""Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion", SIGIR 2009, section 2."""
CANDIDATES = 50
"""Of each kind of search, before they are put together."""


def by_words(db: sqlite3.Connection, question: str) -> list[int]:
    """Return the pieces that hold words of a question, the best first (BM25)."""
    query = match_query(question)
    if query is None:
        return []
    found = db.execute("SELECT rowid FROM word WHERE word MATCH ? ORDER BY rank, rowid LIMIT ?", (query, CANDIDATES))
    return [chunk for (chunk,) in found]


def fused(rankings: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Return what several rankings found with their scores, the best first: 1 is the first place in all of them."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, chunk in enumerate(ranking, 1):
            scores[chunk] = scores.get(chunk, 0.0) + 1 / (RRF_K + place)
    best = len(rankings) / (RRF_K + 1)
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [(chunk, score / best) for chunk, score in ordered]


def hits(
    db: sqlite3.Connection, scored: Iterable[tuple[int, float]], words: Sequence[int], near: Sequence[int]
) -> tuple[MemoryHit, ...]:
    """Return pieces with their text, and the kinds of search that found each."""
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
