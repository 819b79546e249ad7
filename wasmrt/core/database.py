"""One private SQLite file: made by whichever process is first, opened for one operation, refused where it is exposed.

Processes and threads share nothing but the file. A process that is killed leaves all of a transaction or nothing.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wasmrt.core.errors import WasmrtError
from wasmrt.core.files import unfit

_BUSY_SECONDS = 30.0
_SCRUB_MS = 200


class Database:
    """A SQLite file with one schema. Reading one that does not exist is for the caller to avoid: see `status`.

    `unusable` makes the error of its owner from a reason; whatever is wrong with the file is raised as that.
    """

    def __init__(self, path: Path, schema: str, version: int, *, unusable: Callable[[str], WasmrtError]) -> None:
        self.path = path
        self._schema = schema
        self._version = version
        self._unusable = unusable

    def status(self) -> os.stat_result | None:
        """Return the file's status, or None where there is none yet.

        Raises:
            WasmrtError: it is a link, no file, or not this user's alone.
        """
        try:
            found = self.path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error
        # SECURITY: whoever can write here decides what it says, and whoever can read here sees what is private.
        if (reason := unfit(found, private=True)) is not None:
            raise self._unusable(f"{self.path.name} {reason}")
        return found

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for queries of a file that is there."""
        with self.translated(), contextlib.closing(self.connect()) as db:
            yield db

    @contextmanager
    def writing(self, *, scrub: bool = False) -> Iterator[sqlite3.Connection]:
        """Open a transaction that excludes every other writer, in any process; committed if the block ends well.

        With `scrub`, what it deleted is taken out of the write-ahead log too, unless somebody is reading it.
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
            WasmrtError: the file is not this user's alone, or was written by another version.
        """
        self.status()
        address = f"{self.path.absolute().as_uri()}?mode=rw"
        db = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            # FULL: what was written stays so after a power cut. What is deleted is overwritten.
            db.executescript("PRAGMA synchronous=FULL; PRAGMA secure_delete=ON; PRAGMA trusted_schema=OFF;")
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found != self._version:
                raise self._unusable(f"{self.path.name} was written by another wasmrt")
        except BaseException:
            db.close()
            raise
        return db

    def _create(self) -> None:
        """Make the file beside its place and link it there: the first process wins, none sees half a schema."""
        import tempfile  # with what it loads, more than all of this package; most processes make no file

        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".new-", ignore_cleanup_errors=True) as made:
            fresh = Path(made) / "fresh"
            os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode=WAL")
                db.executescript(f"BEGIN;{self._schema}PRAGMA user_version={self._version};COMMIT;")
            with suppress(FileExistsError):  # somebody else was first: then theirs is the one
                os.link(fresh, self.path)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn every error of SQLite, of the file system and of rows that are not ours into the owner's error."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._unusable(str(error)) from error
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error
        except (ValueError, KeyError, TypeError) as error:  # an effect or a reason of another version, say
            raise self._unusable("a row was written by another wasmrt") from error
