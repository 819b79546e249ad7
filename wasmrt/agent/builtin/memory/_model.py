"""Values of an agent's memory: documents, their versions, and what a search finds."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple


class Trust(IntEnum):
    """The origin of a remembered text, kept beside it for as long as it is there; of several, the highest holds."""

    TRUSTED = 0
    """A person wrote it, or a conversation that had seen no text of strangers."""
    UNKNOWN = 1
    """Written by a call of which nobody kept track."""
    UNTRUSTED = 2
    """Written by a conversation that had seen text which strangers could write."""

    @property
    def word(self) -> str:
        """The name as it stands in results."""
        return self.name.lower()


class Author(IntEnum):
    """The writer of a version."""

    TOOL = 0
    PERSON = 1


class MemoryVersion(NamedTuple):
    """One version of a document."""

    path: str
    number: int
    bytes: int
    """Of what this version wrote: of an appended one, of the addition."""
    appended: bool
    trust: Trust
    author: Author
    made_ms: int

    def as_dict(self) -> dict[str, Any]:
        """Return the version as JSON data."""
        return self._asdict() | {"trust": self.trust.word, "author": self.author.name.lower()}


class MemoryDocument(NamedTuple):
    """A document as one of its versions has it."""

    path: str
    content: str
    number: int
    """Of the version."""
    trust: Trust
    updated_ms: int


class MemoryEntry(NamedTuple):
    """A document without its content."""

    path: str
    bytes: int
    number: int
    trust: Trust
    updated_ms: int


class MemoryHit(NamedTuple):
    """A piece of a document that a search found."""

    path: str
    content: str
    score: float
    """From 0 to 1, which is the first place in every kind of search that was made."""
    found_by: tuple[str, ...]
    """`text`, `vector`, or both."""
    trust: Trust
    updated_ms: int


class MemoryFindings(NamedTuple):
    """The answer of a search, the best hit first."""

    hits: tuple[MemoryHit, ...]
    search: str
    """`hybrid`, or `full-text` where there were no vectors to compare."""
    note: str = ""
    """The reason that vectors were not compared, where they should have been."""
