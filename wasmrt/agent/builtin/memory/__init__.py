"""Memory of agents: documents with their history in one private database for each user, searchable."""

from __future__ import annotations

from wasmrt.agent.builtin.memory._model import (
    Author,
    MemoryDocument,
    MemoryEntry,
    MemoryFindings,
    MemoryHit,
    MemoryVersion,
    Target,
    Trust,
    decide_write,
    read_target,
)
from wasmrt.agent.builtin.memory._search import vector_problem
from wasmrt.agent.builtin.memory._store import MemoryStore

__all__ = [
    "Author",
    "MemoryDocument",
    "MemoryEntry",
    "MemoryFindings",
    "MemoryHit",
    "MemoryStore",
    "MemoryVersion",
    "Target",
    "Trust",
    "decide_write",
    "read_target",
    "vector_problem",
]
