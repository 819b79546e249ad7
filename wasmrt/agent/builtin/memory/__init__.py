"""Memory of agents: documents of each user in a private database, with their history, found by words and meaning."""

from __future__ import annotations

from wasmrt.agent.builtin.memory._in_c import why_not_in_c
from wasmrt.agent.builtin.memory._model import (
    Author,
    MemoryDocument,
    MemoryEntry,
    MemoryFindings,
    MemoryHit,
    MemorySettings,
    MemoryVersion,
    Trust,
)
from wasmrt.agent.builtin.memory._paths import Target, decide_write, read_target
from wasmrt.agent.builtin.memory._store import MemoryStore
from wasmrt.agent.builtin.memory._vectors import Embedder
from wasmrt.agent.builtin.memory._wordllama import WordLlamaEmbedder

__all__ = [
    "Author",
    "Embedder",
    "MemoryDocument",
    "MemoryEntry",
    "MemoryFindings",
    "MemoryHit",
    "MemorySettings",
    "MemoryStore",
    "MemoryVersion",
    "Target",
    "Trust",
    "WordLlamaEmbedder",
    "decide_write",
    "read_target",
    "why_not_in_c",
]
