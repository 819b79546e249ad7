"""Stores that several processes share: a private SQLite file, or a PostgreSQL database (`wasmrt.core.postgres`).

Each operation on a file opens its own connection. A transaction is atomic even if the process is killed. A file that
other users can read or write is refused.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wasmrt.core.errors import WasmrtError
from wasmrt.core.files import find_unfitness

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

_BUSY_SECONDS = 30.0
_SCRUB_MS = 200


class Rows(Protocol):
    """The result of a statement. Values of a row are read by position, or by the name of their column."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the remaining rows."""


class Connection(Protocol):
    """A connection to a store, of either kind."""

    def execute(self, sql: str, values: Sequence[Any] = ..., /) -> Rows:
        """Execute a statement with `?` for each value."""


class Store(Protocol):
    """A store with a fixed schema, of either kind."""

    @property
    def exists(self) -> bool:
        """False if nothing was written yet, and reading is not possible."""

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a connection for queries."""

    def writing(self, *, scrub: bool = False) -> AbstractContextManager[Connection]:
        """Open a transaction that excludes all other writers, and commit it if the block succeeds."""

    def now_ms(self, db: Connection) -> int:
        """Return the time in Unix milliseconds, which is the same for all users of the store."""

    def close(self) -> None:
        """Close the idle connections. The store can still be used."""


def open_store(
    place: Path | Postgres, name: str, schema: str, version: int, *, unusable: Callable[[str], WasmrtError]
) -> Store:
    """Return the store in a SQLite file, or the store `name` in a PostgreSQL database."""
    if isinstance(place, Path):
        return Database(place, schema, version, unusable=unusable, named=True)
    return place.open(name, schema, version, unusable=unusable)


def storable_text(text: str) -> str:
    """Return text that both kinds of stores accept, without unpaired surrogates and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


class Database:
    """A SQLite file with a fixed schema. The first write creates the file; callers check `status` before reading.

    Every problem with the file is raised as the error that the function `unusable` returns for the reason.
    """

    def __init__(
        self, path: Path, schema: str, version: int, *, unusable: Callable[[str], WasmrtError], named: bool = False
    ) -> None:
        """With `named`, values of rows can also be read by the names of their columns."""
        self.path = path
        self._schema = schema
        self._version = version
        self._unusable = unusable
        self._row_factory = sqlite3.Row if named else None

    @property
    def exists(self) -> bool:
        """True if the file exists."""
        return self.status() is not None

    def status(self) -> os.stat_result | None:
        """Return the status of the file, or None if the file does not exist.

        Raises:
            WasmrtError: the file is a symbolic link, is not a regular file, or can be accessed by other users.
        """
        try:
            found = self.path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error
        # SECURITY: another user could forge rows in a file that others can write, and read one that they can read.
        if (reason := find_unfitness(found, private=True)) is not None:
            raise self._unusable(f"{self.path.name} {reason}")
        return found

    def now_ms(self, db: Connection) -> int:
        """Return the time of this host in Unix milliseconds."""
        return time.time_ns() // 1_000_000

    def close(self) -> None:
        """Do nothing: each operation closes its connection."""

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for queries to the file, which must exist."""
        with self.translated(), contextlib.closing(self.connect()) as db:
            yield db

    @contextmanager
    def writing(self, *, scrub: bool = False) -> Iterator[sqlite3.Connection]:
        """Open a transaction that excludes all other writers, and commit it if the block succeeds.

        With `scrub`, also remove deleted rows from the write-ahead log, unless another connection is reading it.
        """
        with self.translated():
            if self.status() is None:
                self._create()
            with contextlib.closing(self.connect()) as db:
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                    db.execute("COMMIT")
                finally:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                if scrub:
                    db.execute(f"PRAGMA busy_timeout={_SCRUB_MS}")
                    with suppress(sqlite3.OperationalError):
                        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def connect(self) -> sqlite3.Connection:
        """Open a connection that the caller closes.

        Raises:
            WasmrtError: other users can access the file, or a different version of wasmrt has written it.
        """
        self.status()
        address = f"{self.path.absolute().as_uri()}?mode=rw"
        db = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        db.row_factory = self._row_factory
        try:
            # FULL: commits survive a power cut. secure_delete: deleted rows are overwritten.
            db.executescript("PRAGMA synchronous=FULL; PRAGMA secure_delete=ON; PRAGMA trusted_schema=OFF;")
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found != self._version:
                raise self._unusable(f"{self.path.name} was written by a different version of wasmrt")
        except BaseException:
            db.close()
            raise
        return db

    def _create(self) -> None:
        """Create the file under a temporary name, then link it, so that no process sees an incomplete schema."""
        import tempfile  # slow to import, and most processes create no file

        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".new-", ignore_cleanup_errors=True) as made:
            fresh = Path(made) / "fresh"
            os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode=WAL")
                db.executescript(f"BEGIN;{self._schema}PRAGMA user_version={self._version};COMMIT;")
            with suppress(FileExistsError):  # another process created the file first; use its file
                os.link(fresh, self.path)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Convert errors of SQLite, of the file system and about unreadable rows to the error from `unusable`."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._unusable(str(error)) from error
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error
        except (ValueError, KeyError, TypeError) as error:  # for example, an effect that only another version has
            raise self._unusable("a row was written by a different version of wasmrt") from error
