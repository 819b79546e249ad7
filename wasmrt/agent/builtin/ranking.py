"""Rank rows by how many words of a query they contain, for `skill_search` and `tool_search`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_WORD = re.compile(r"\w+")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|s)\Z")
_COMMON = frozenset((
    "a", "about", "an", "and", "any", "are", "at", "be", "by", "can", "could", "do", "does", "find", "for",
    "from", "get", "help", "how", "i", "in", "into", "is", "it", "its", "me", "my", "need", "of", "on", "or",
    "please", "show", "skill", "skills", "some", "that", "the", "there", "this", "to", "tool", "tools", "up",
    "use", "using", "want", "was", "we", "what", "when", "where", "which", "with", "would", "you", "your",
))  # fmt: skip
"""Words that are in most questions and descriptions."""


def rank_rows(query: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows whose name or description has at least half of the query's words, the rows with most words first.

    Rows with equally many words are ordered by the words in the name. English endings are ignored. Common words are
    ignored if the query has any other words.
    """
    words = dict.fromkeys(_WORD.findall(query.casefold()))
    wanted = [_ENDING.sub("", word) for word in words if word not in _COMMON] or list(words)
    counted = []
    for row in rows:
        name = row["name"].casefold()
        text = f"{name} {row.get('description', '')}".casefold()
        counted.append((sum(word in text for word in wanted), sum(word in name for word in wanted), row))
    counted.sort(key=lambda each: each[:2], reverse=True)
    return [row for count, _, row in counted if count * 2 >= max(len(wanted), 1)]
