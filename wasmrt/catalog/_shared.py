"""The catalog of several hosts in a PostgreSQL database.

The rows are those of a SQLite file, whose content is one value of the database. A change therefore replaces the whole
catalog in one transaction, and one authentication code protects all versions and grants.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from wasmrt.catalog._components import ComponentFolder
from wasmrt.catalog._index import new_layout, require_current_layout, translated
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import InstallError, IntegrityError
from wasmrt.core.limits import MAX_SHARED_CATALOG_BYTES

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

_VERSION = 1
_INDEX = "CREATE TABLE catalog (revision INTEGER NOT NULL, data BYTEA NOT NULL, code BYTEA NOT NULL)"
_COMPONENTS = "CREATE TABLE component (digest TEXT PRIMARY KEY, data BYTEA NOT NULL)"
_CONTEXT = b"wasmrt catalog 1\0"


class SharedIndex:
    """The index of the catalog. `key` returns the 32-byte key of the authentication code, which all hosts share."""

    exists = True

    def __init__(self, place: Postgres, key: Callable[[], bytes]) -> None:
        self._database = place.open("catalog", _INDEX, _VERSION, unusable=_unusable_error)
        self._key = key

    def trace(self) -> tuple[Any, ...]:
        """Return numbers that differ after every change of the catalog.

        Raises:
            InstallError: the database cannot be read.
        """
        with self._database.reading() as shared:
            return tuple(tuple(row) for row in shared.execute("SELECT revision, code FROM catalog").fetchall())

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a copy of the catalog for queries.

        Raises:
            IntegrityError: the catalog was not written with this key.
            InstallError: the database cannot be read.
        """
        with self._database.reading() as shared:
            found = shared.execute("SELECT revision, data, code FROM catalog").fetchall()
        with translated(), contextlib.closing(self._open(found)) as db:
            yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a copy of the catalog for changes, excluding writers on all hosts. Store it if the block succeeds."""
        with self._database.writing() as shared:
            found = shared.execute("SELECT revision, data, code FROM catalog").fetchall()
            with translated(), contextlib.closing(self._open(found)) as db:
                db.execute("BEGIN")
                yield db
                db.execute("COMMIT")
                data = db.serialize()
            if len(data) > MAX_SHARED_CATALOG_BYTES:
                hint = "remove tools that you no longer need: wasmrt remove NAME"
                raise InstallError(f"the catalog has more than {MAX_SHARED_CATALOG_BYTES:,} bytes", hint=hint)
            revision = found[0]["revision"] + 1 if found else 1
            shared.execute("DELETE FROM catalog")
            shared.execute("INSERT INTO catalog VALUES (?, ?, ?)", (revision, data, self._code(revision, data)))

    def _open(self, found: list[Any]) -> sqlite3.Connection:
        # SECURITY: a database that others could write is not even parsed.
        if found and not compare_digest(self._code(found[0]["revision"], found[0]["data"]), found[0]["code"]):
            raise IntegrityError(
                "the shared catalog was not written with the key of this host", code="catalog",
                hint="set the same database.key_secret on each host; if it is, restore the database from a backup",
            )  # fmt: skip
        db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            if found:
                db.deserialize(found[0]["data"])
            else:
                new_layout(db)
            return require_current_layout(db, upgrade=True)
        except BaseException:
            db.close()
            raise

    def _code(self, revision: int, data: bytes) -> bytes:
        return blake3(_CONTEXT + revision.to_bytes(8, "big") + data, key=self._key()).digest()


class SharedComponents(ComponentFolder):
    """Stores components in the database. The folder of this host has copies of those that it wrote or read."""

    def __init__(self, data: Path, place: Postgres) -> None:
        super().__init__(data)
        self._database = place.open("components", _COMPONENTS, _VERSION, unusable=_unusable_error)

    def write(self, component: ComponentBytes) -> None:
        """Store a component in the database and the folder."""
        super().write(component)
        insert = "INSERT INTO component VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET data = excluded.data"
        with self._database.writing() as db:
            db.execute(insert, (component.digest, component.data))

    def read(self, digest: str, name: str, *, size_bytes: int) -> ComponentBytes:
        """Return a component, from the database if the folder does not have it. See `ComponentFolder.read`."""
        try:
            return super().read(digest, name, size_bytes=size_bytes)
        except IntegrityError:
            with self._database.reading() as db:
                query = "SELECT data FROM component WHERE digest = ? AND length(data) = ?"
                found = db.execute(query, (digest, size_bytes)).fetchall()
            # SECURITY: the digest is from the authenticated index.
            if self.has(digest) or not found or (component := ComponentBytes(found[0][0])).digest != digest:
                raise
        with suppress(OSError):  # a read-only folder: the next call reads the database again
            self.prepare()
            self.replace(component)
        return component

    def remove(self, digest: str) -> None:
        """Remove a component from the database and the folder. Other hosts keep their copies until they sweep."""
        super().remove(digest)
        with self._database.writing() as db:
            db.execute("DELETE FROM component WHERE digest = ?", (digest,))

    def strays(self, known: Container[str]) -> list[str]:
        """Return the digests of components in the database and the folder that are not in `known`."""
        with self._database.reading() as db:
            stored = [digest for (digest,) in db.execute("SELECT digest FROM component").fetchall()]
        return sorted({*super().strays(known), *(digest for digest in stored if digest not in known)})


def _unusable_error(reason: str) -> InstallError:
    hint = "check the database of [database] with: wasmrt doctor"
    return InstallError(f"the catalog that hosts share cannot be used: {reason}", code="catalog", hint=hint)
