"""Words of texts and questions, as the full-text indexes of both databases store and search them."""

from __future__ import annotations

import re
import unicodedata

from wasmrt.core.limits import MAX_MEMORY_QUERY_WORDS
from wasmrt.core.normal_form import normalize

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Kana, Han and Hangul, which do not separate all words by spaces. Each character is indexed as a word."""
_EACH = re.compile(f"([{_UNSPACED}])")
_WORDS = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])\w)+")
_OTHER = re.compile(r"[\W_]+")
_MAX_WORD_CHARS = 64


def index_text(text: str) -> str:
    """Return a text normalized for the full-text index."""
    return _EACH.sub(r" \1 ", normalize("NFKC", text).casefold())


def split_question(question: str) -> list[str]:
    """Return the words of a question, without repetitions. Characters of unspaced scripts are separated by spaces."""
    plain = normalize("NFKC", question).casefold()
    words = dict.fromkeys(found[0][:_MAX_WORD_CHARS] for found in _WORDS.finditer(plain))
    return [" ".join(_EACH.sub(r" \1 ", word).split()) for word in words][:MAX_MEMORY_QUERY_WORDS]


def match_query(question: str) -> str | None:
    """Return a query of SQLite that matches any word of a question, or None if it has no words.

    SECURITY: the full-text index has a query language (quotes, NEAR, columns, *). The query contains only quoted
    words, so a question cannot use that language.
    """
    return " OR ".join(f'"{phrase}"' for phrase in split_question(question)) or None


def plain_words(text: str) -> str:
    """Return letters and digits without diacritics, separated by spaces, as SQLite's index also splits texts."""
    letters = "".join(char for char in normalize("NFD", text) if unicodedata.category(char) != "Mn")
    return _OTHER.sub(" ", normalize("NFC", letters)).strip()
