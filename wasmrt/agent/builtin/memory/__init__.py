"""Memory of agents: documents of each user in a private database, with their history, found by words and meaning."""

from __future__ import annotations

from wasmrt.agent.builtin.memory._in_c import why_not_in_c
from wasmrt.agent.builtin.memory._model import (
    Author,
    MemoryDocument,
    MemoryEntry,
    MemoryFindings,
    MemoryHit,
    MemoryVersion,
    Trust,
)
from wasmrt.agent.builtin.memory._paths import Target, decide_write, read_target
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
    "why_not_in_c",
]
