"""Remembered answers of the database in memory, as fresh as the file: a look at it costs microseconds."""

from __future__ import annotations

import os
import sqlite3
import threading

from wasmrt.agent.approvals._model import ApprovalRequest
from wasmrt.agent.approvals._remembered import Answers, Remembered
from wasmrt.agent.approvals._rows import remembered_of
from wasmrt.core.database import Database


class Mirror:
    """One connection that stays open, and what it last read. Safe from many threads, and across a fork."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None
        self._process = os.getpid()
        self._version = 0
        self._counter = -1
        self._answers = Answers()

    def find(self, request: ApprovalRequest) -> Remembered | None:
        """Return the answer that holds for a request, as the file has it now.

        Raises:
            ApprovalError: the file cannot be read.
        """
        self._notice_fork()
        with self._lock, self._database.translated():
            self._refresh()
            return self._answers.find(request)

    def version(self) -> tuple[int, ...]:
        """Return numbers that are others after every change of the file.

        Raises:
            ApprovalError: the file cannot be read.
        """
        self._notice_fork()
        with self._lock, self._database.translated():
            return (self._data_version(), *(self._opened or ()))

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        self._notice_fork()
        with self._lock:
            self._forget()

    def __del__(self) -> None:
        # From Python 3.13 on, a connection that nobody closed is a ResourceWarning.
        if self._db is not None and self._process == os.getpid():
            self._db.close()

    def _data_version(self) -> int:
        """SECURITY: a file that was exchanged or removed is noticed: what it said no longer holds."""
        found = self._database.status()
        identity = None if found is None else (found.st_dev, found.st_ino)
        if identity != self._opened:
            self._forget()
            if identity is not None:
                self._db = self._database.connect()
                self._opened = identity
        if self._db is None:
            return 0
        version: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _refresh(self) -> None:
        version = self._data_version()
        if self._db is None or version == self._version:
            return
        counter = self._db.execute("SELECT value FROM counter WHERE name = 'answers'").fetchone()[0]
        if counter != self._counter:
            self._db.row_factory = sqlite3.Row
            try:
                rows = self._db.execute("SELECT * FROM answer ORDER BY made_ms, id").fetchall()
            finally:
                self._db.row_factory = None
            self._answers = Answers(map(remembered_of, rows))
        self._version, self._counter = version, counter

    def _forget(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db, self._opened, self._version, self._counter, self._answers = None, None, 0, -1, Answers()

    def _notice_fork(self) -> None:
        """Leave the parent's connection alone: SQLite's do not survive a fork, not even being closed."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._abandoned = self._db
            self._lock = threading.Lock()
            self._db = None
            self._forget()
