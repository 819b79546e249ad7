"""Texts as they are found again: pieces of a document, the words of a piece, and the words of a question."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from wasmrt.core.limits import MAX_MEMORY_QUERY_WORDS

CHUNK_CHARS = 1600
"""Of a piece, at most: some 400 tokens of a model."""
_OVERLAP_CHARS = 200
_ENDS = ("\n\n", "\n", ". ", " ")
"""Places where a piece may end, the best first."""
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Kana, Han and Hangul: written without blanks between words, or with endings on them; each character is a word."""
_EACH = re.compile(f"([{_UNSPACED}])")
_WORDS = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])\w)+")
_MAX_WORD_CHARS = 64


def pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the pieces of a text begin, and their lengths: at most `CHUNK_CHARS`, overlapping a little."""
    start = 0
    while start < len(text):
        end = _end(text, start)
        if not text[start:end].isspace():
            yield start, end - start
        if end == len(text):
            return
        blank = text.find(" ", end - _OVERLAP_CHARS, end)
        start = blank + 1 if blank >= 0 else end


def index_text(text: str) -> str:
    """Return a text as the index of words takes it in."""
    return _EACH.sub(r" \1 ", unicodedata.normalize("NFKC", text).casefold())


def match_query(question: str) -> str | None:
    """Return the query of the index for a question: any of its words; None where it has none.

    SECURITY: the index has a language of its own (quotes, NEAR, columns, *). None of it comes through: the query is
    made of words alone, each in quotes.
    """
    plain = unicodedata.normalize("NFKC", question).casefold()
    words = dict.fromkeys(found[0][:_MAX_WORD_CHARS] for found in _WORDS.finditer(plain))
    phrases = [" ".join(_EACH.sub(r" \1 ", word).split()) for word in words]
    return " OR ".join(f'"{phrase}"' for phrase in phrases[:MAX_MEMORY_QUERY_WORDS]) or None


def _end(text: str, start: int) -> int:
    most = start + CHUNK_CHARS
    if most >= len(text):
        return len(text)
    least = start + CHUNK_CHARS // 2
    for mark in _ENDS:
        found = text.rfind(mark, least, most)
        if found >= 0:
            return found + len(mark)
    return most
