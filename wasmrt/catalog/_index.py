"""The index of the catalog: durable transactions on one SQLite file. `_rows` reads and writes the rows.

Every operation opens its own connection, so that threads and processes share only the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wasmrt.core.errors import InstallError

BUSY_SECONDS = 30.0
INCOMING = "incoming"
"""The folder for incomplete files, on the same file system as the final files."""
_VERSION = 6
# The columns for `Catalog.tools` come first, because SQLite reads a row only up to the last column it needs.
_SCHEMA = """
CREATE TABLE tool (
    name TEXT PRIMARY KEY, active INTEGER NOT NULL, pending INTEGER
) WITHOUT ROWID;
CREATE TABLE version (
    name TEXT NOT NULL, number INTEGER NOT NULL, digest TEXT NOT NULL, size_bytes INTEGER NOT NULL,
    world TEXT NOT NULL, description TEXT NOT NULL, tools INTEGER NOT NULL, for_agents INTEGER NOT NULL DEFAULT 0,
    origin TEXT NOT NULL, installed_at TEXT NOT NULL, schema_digest TEXT, imports TEXT NOT NULL,
    exports TEXT NOT NULL, sidecar TEXT, granted TEXT, package TEXT, kept TEXT,
    provenance TEXT,
    PRIMARY KEY (name, number)
);
CREATE INDEX version_digest ON version (digest);
"""
_UPGRADES = {
    3: "ALTER TABLE version ADD COLUMN kept TEXT",
    # SECURITY: no user agreed to offer the versions of older layouts to agents.
    4: "ALTER TABLE version ADD COLUMN for_agents INTEGER NOT NULL DEFAULT 0",
    5: "ALTER TABLE version ADD COLUMN provenance TEXT",
}
"""The SQL statement that upgrades each older layout to the next layout, by the number of the older layout."""


class Index:
    """The SQLite file of one installation. If the file is missing, no tool is installed."""

    def __init__(self, data: Path) -> None:
        self._path = data / "catalog.sqlite3"

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def trace(self) -> tuple[Any, ...]:
        """Return numbers that differ after every change of the catalog. This takes only microseconds."""
        found = []
        for path in (self._path, self._path.with_name(f"{self._path.name}-wal")):
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((path.name, status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for queries; the caller checks `exists` first."""
        with translated():
            try:
                db = self._open("mode=rw")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise
                # A read-only folder cannot contain WAL's side files, but no process can be writing there either.
                db = self._open("mode=ro&immutable=1")
            with contextlib.closing(db):
                yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that excludes writers in all processes, and commit it if the block succeeds."""
        with translated():
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
            return require_current_layout(db, upgrade=mode == "mode=rw")
        except BaseException:
            db.close()
            raise

    def _create(self) -> None:
        """Create the file at a temporary path and link it, so that no other process can see a partial schema."""
        import tempfile  # slow to import, and not needed to run a tool

        folder = self._path.parent / INCOMING
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made:
                fresh = Path(made) / "catalog"
                with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as db:
                    db.execute("PRAGMA journal_mode=WAL")
                    new_layout(db)
                os.link(fresh, self._path)
        except (OSError, sqlite3.OperationalError):
            # Another process created the catalog first, and may have deleted this temporary folder.
            if not self.exists:
                raise


def new_layout(db: sqlite3.Connection) -> None:
    """Create the tables of an empty catalog."""
    db.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={_VERSION};COMMIT;")


def require_current_layout(db: sqlite3.Connection, *, upgrade: bool) -> sqlite3.Connection:
    """Return the connection if its catalog has the current layout. With `upgrade`, upgrade an older layout first.

    Raises:
        InstallError: the catalog has another layout.
    """
    found = _read_version(db)
    if found in _UPGRADES and upgrade:
        found = _upgrade(db)
    if found != _VERSION:
        older = found in _UPGRADES  # this process may lack write access
        raise InstallError(
            f"the catalog has layout {found}, but this version of wasmrt reads layout {_VERSION}",
            code="catalog",
            hint="to upgrade the catalog, run wasmrt list once as the owner of the folder"
            if older
            else "use the version of wasmrt that wrote it, or move the folder away and reinstall the tools",
        )
    return db


def _read_version(db: sqlite3.Connection) -> int:
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    return found


def _upgrade(db: sqlite3.Connection) -> int:
    """Upgrade the catalog, if no other process has done so already. Return the number of the resulting layout."""
    db.execute("BEGIN IMMEDIATE")
    try:
        while (found := _read_version(db)) in _UPGRADES:
            db.execute(_UPGRADES[found])
            db.execute(f"PRAGMA user_version={found + 1}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
    return found


@contextmanager
def translated() -> Iterator[None]:
    """Convert errors of SQLite and of the file system to InstallError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        busy = "locked" in str(error)
        raise InstallError(
            f"cannot use the catalog: {error}",
            code="catalog",
            hint="another wasmrt process is writing to it; try again"
            if busy
            else "check the owner of its folder and the free disk space",
        ) from error
    except sqlite3.Error as error:
        raise InstallError(
            f"the catalog is damaged ({error})",
            code="catalog",
            hint="move its folder away and reinstall the tools",
        ) from error
    except OSError as error:
        raise InstallError(
            f"cannot write the catalog: {error.strerror}",
            code="catalog",
            hint="check the owner of its folder and the free disk space",
        ) from error
