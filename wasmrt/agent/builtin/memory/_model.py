"""Values of an agent's memory: documents, their versions, what a search finds, and an operator's settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.agent.builtin.memory._vectors import Embedder
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_MEMORY_BYTES, MAX_MEMORY_DOCUMENT_BYTES, MAX_MEMORY_VERSIONS


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """An operator's settings of the memory of agents.

    Raises:
        ConfigurationError: a number is out of its range, or the embedder is none.

    Example:
        >>> from wasmrt import MemorySettings, WasmRuntimeConfig
        >>> WasmRuntimeConfig(memory=MemorySettings(max_versions=10)).memory.max_versions
        10
    """

    path: Path | None = None
    """The folder of the databases, one for each user; None for that of the data folder."""
    max_document_bytes: int = MAX_MEMORY_DOCUMENT_BYTES
    max_user_bytes: int = MAX_MEMORY_BYTES
    """Of one user's documents with their history."""
    max_versions: int = MAX_MEMORY_VERSIONS
    """Kept of a document besides what it holds now."""
    embedder: Embedder | None = None
    """Makes vectors of texts; without one, words alone are searched."""

    def __post_init__(self) -> None:
        for name, most in (("max_document_bytes", 2**24), ("max_user_bytes", 2**36), ("max_versions", 100_000)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise ConfigurationError(f"{name} must be a whole number from 1 to {most:,}")
        given: object = self.embedder
        if given is not None and not isinstance(given, Embedder):
            hint = "it needs `name` and `embed`: see wasmrt.agent.builtin.memory.Embedder"
            raise ConfigurationError(f"{given!r:.80} is no embedder", hint=hint)
