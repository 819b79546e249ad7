"""The catalog's index: one SQLite file. This module opens it, fast and safely; it knows no tools.

A connection lives for one operation, so that threads and processes share nothing but the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wasmrt.core.errors import InstallError

BUSY_SECONDS = 30.0
INCOMING = "incoming"
"""The folder for what is not whole yet; it lies on the same file system as what it becomes."""
_VERSION = 4
# The columns that `Catalog.tools` reads come first: SQLite does not read a row further than it is asked to.
_SCHEMA = """
CREATE TABLE tool (
    name TEXT PRIMARY KEY, active INTEGER NOT NULL, pending INTEGER
) WITHOUT ROWID;
CREATE TABLE version (
    name TEXT NOT NULL, number INTEGER NOT NULL, digest TEXT NOT NULL, size_bytes INTEGER NOT NULL,
    world TEXT NOT NULL, description TEXT NOT NULL, tools INTEGER NOT NULL,
    origin TEXT NOT NULL, installed_at TEXT NOT NULL, schema_digest TEXT, imports TEXT NOT NULL,
    exports TEXT NOT NULL, sidecar TEXT, granted TEXT, package TEXT, kept TEXT,
    PRIMARY KEY (name, number)
);
CREATE INDEX version_digest ON version (digest);
"""
_UPGRADES = {3: "ALTER TABLE version ADD COLUMN kept TEXT"}
"""From a layout to the next one."""


class Index:
    """The SQLite file of one installation. Reading one that does not exist reads an empty one."""

    def __init__(self, data: Path) -> None:
        self._path = data / "catalog.sqlite3"

    @property
    def exists(self) -> bool:
        return self._path.exists()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for queries; the caller asks `exists` first."""
        with _translated():
            try:
                db = self._open("mode=rw")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise
                # A read-only folder cannot hold WAL's side files. Nobody can be writing there either.
                db = self._open("mode=ro&immutable=1")
            with contextlib.closing(db):
                yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that excludes every other writer, in any process; committed if the block ends well."""
        with _translated():
            if not self.exists:
                self._create()
            with contextlib.closing(self._open("mode=rw")) as db:
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                    db.execute("COMMIT")
                finally:
                    if db.in_transaction:
                        db.execute("ROLLBACK")

    def _open(self, mode: str) -> sqlite3.Connection:
        address = f"{self._path.absolute().as_uri()}?{mode}"
        db = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            found = _version(db)
            if found in _UPGRADES and mode == "mode=rw":
                found = _upgrade(db)
        except BaseException:
            db.close()
            raise
        if found != _VERSION:
            db.close()
            older = found in _UPGRADES  # and this process may not write it
            raise InstallError(
                f"the catalog was written by another wasmrt (layout {found}, this one reads {_VERSION})",
                code="catalog",
                hint="have whoever owns the folder run wasmrt list once, which brings it to this layout"
                if older
                else "use the wasmrt that wrote it, or move the folder away and install the tools again",
            )
        return db

    def _create(self) -> None:
        """Make the file beside its place and link it there: the first process wins, none sees half a schema."""
        import tempfile  # with what it loads, more than all of this package; a run makes no catalog

        folder = self._path.parent / INCOMING
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made:
                fresh = Path(made) / "catalog"
                with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as db:
                    db.execute("PRAGMA journal_mode=WAL")
                    db.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={_VERSION};COMMIT;")
                os.link(fresh, self._path)
        except (OSError, sqlite3.OperationalError):
            # Somebody else was first, and may have cleared the folder under our hands: then theirs is the one.
            if not self.exists:
                raise


def _version(db: sqlite3.Connection) -> int:
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    return found


def _upgrade(db: sqlite3.Connection) -> int:
    """Bring an older layout to this one, and return it. Another process may have done it first."""
    db.execute("BEGIN IMMEDIATE")
    try:
        while (found := _version(db)) in _UPGRADES:
            db.execute(_UPGRADES[found])
            db.execute(f"PRAGMA user_version={found + 1}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
    return found


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        busy = "locked" in str(error)
        raise InstallError(
            f"the catalog cannot be used ({error})",
            code="catalog",
            hint="another wasmrt is writing to it; try again"
            if busy
            else "check that its folder is yours and the disk is not full",
        ) from error
    except sqlite3.Error as error:
        raise InstallError(
            f"the catalog is damaged ({error})",
            code="catalog",
            hint="move its folder away and install the tools again",
        ) from error
    except OSError as error:
        raise InstallError(
            f"the catalog cannot be written ({error.strerror})",
            code="catalog",
            hint="check that its folder is yours and the disk is not full",
        ) from error
