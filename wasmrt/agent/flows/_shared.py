"""The labels of traces in a database that several hosts share; the content stays in the memory of each host."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from wasmrt.agent.flows._trace import FlowTrace
from wasmrt.core.database import Store
from wasmrt.core.errors import ToolError, WasmrtError
from wasmrt.core.labels import Label

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

_SCHEMA = """
CREATE TABLE labels (
  user TEXT NOT NULL, trace TEXT NOT NULL, label TEXT NOT NULL, host TEXT NOT NULL, changed_ms INTEGER NOT NULL,
  PRIMARY KEY (user, trace, label, host)
) WITHOUT ROWID;
CREATE INDEX labels_by_time ON labels (changed_ms);
"""
_DAY_SECONDS = 24 * 3600
_MS_STORED = 30 * _DAY_SECONDS * 1000
"""Labels are deleted this long after the last content with them."""
_INSERT = (
    "INSERT INTO labels VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (user, trace, label, host) DO UPDATE SET changed_ms = excluded.changed_ms"
)
_SHARED = frozenset({Label.UNTRUSTED, Label.PRIVATE})


class SharedLabels:
    """The labels that hosts share. Thread-safe.

    SECURITY: a host does not know the content of other hosts. Once other hosts have untrusted or private content in a
    trace, each value that is not found in the host's own content counts as found in the content of the other hosts, so
    that more calls require approval.
    """

    def __init__(self, place: Postgres) -> None:
        self._database: Store = place.open("traces", _SCHEMA, 1, unusable=_unusable_error)
        self._host = secrets.token_hex(16)
        self._lock = threading.Lock()
        self._written: dict[tuple[str, str], tuple[frozenset[Label], float]] = {}
        """The labels stored in the last day, and when."""
        self._pending: dict[tuple[str, str], frozenset[Label]] = {}

    def read(self, user: str, trace: str, flows: FlowTrace) -> None:
        """Add the labels that other hosts have stored for a trace, before a decision about a call.

        Raises:
            ToolError: the database cannot be read, or labels of earlier results could not be stored.
        """
        if (pending := self._pending.get((user, trace))) is not None:
            self.add(user, trace, pending)
        query = "SELECT DISTINCT label FROM labels WHERE user = ? AND trace = ? AND host != ?"
        with self._database.reading() as db:
            found = frozenset(Label(label) for (label,) in db.execute(query, (user, trace, self._host)))
        flows.add_labels_elsewhere(found)

    def add(self, user: str, trace: str, labels: Iterable[Label]) -> None:
        """Store the labels of new content of this host.

        Raises:
            ToolError: the database cannot be written. `read` stores the labels later.
        """
        key, new = (user, trace), _SHARED.intersection(labels)
        written, at = self._written.get(key, (frozenset(), 0.0))
        if new <= written and time.monotonic() - at < _DAY_SECONDS:
            return
        with self._lock:
            self._pending[key] = new = new | self._pending.get(key, frozenset())
        with self._database.writing() as db:
            now = self._database.now_ms(db)
            db.execute("DELETE FROM labels WHERE changed_ms < ?", (now - _MS_STORED,))
            for label in sorted(new):
                db.execute(_INSERT, (user, trace, label, self._host, now))
        with self._lock:
            self._written[key] = (written | new if time.monotonic() - at < _DAY_SECONDS else new), time.monotonic()
            self._pending.pop(key, None)

    def remove(self, user: str, trace: str, labels: Iterable[Label] = _SHARED) -> None:
        """Remove labels of all hosts, because a person cleared them or the trace has ended.

        Raises:
            ToolError: the database cannot be written.
        """
        with self._database.writing() as db:
            for label in labels:
                db.execute("DELETE FROM labels WHERE user = ? AND trace = ? AND label = ?", (user, trace, label))
        with self._lock:
            self._written.pop((user, trace), None)
            self._pending.pop((user, trace), None)


def _unusable_error(reason: str) -> WasmrtError:
    hint = "check the database of [database] with: wasmrt doctor"
    return ToolError(f"the labels that hosts share cannot be used: {reason}", code="trace-store", hint=hint)
