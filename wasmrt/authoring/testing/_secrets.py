"""Secrets in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from wasmrt.egress.secrets import Entry, EntryStore


class MemorySecrets(EntryStore):
    """A `SecretsStore` that forgets everything with the process; `now` returns Unix seconds."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(now=now)
        self._entries: dict[tuple[str, str], Entry] = {}

    def _read(self, user: str, name: str) -> Entry | None:
        return self._entries.get((user, name))

    def _write(self, user: str, name: str, entry: Entry) -> None:
        self._entries[user, name] = entry

    def _delete(self, user: str, name: str) -> bool:
        return self._entries.pop((user, name), None) is not None

    def _names(self, user: str) -> Iterable[str]:
        return [name for owner, name in self._entries if owner == user]
