"""Stores in a PostgreSQL database that several hosts share, with the interface of `wasmrt.core.database.Database`."""

from __future__ import annotations

import ipaddress
import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import (
    MAX_IDLE_POSTGRES_CONNECTIONS,
    POSTGRES_CONNECT_SECONDS,
    POSTGRES_NOW_MS,
    POSTGRES_STATEMENT_SECONDS,
)

_PARAMETERS = {"user", "password", "host", "port", "dbname", "channel_binding"} | {
    f"ssl{name}" for name in ("mode", "rootcert", "cert", "key")
}
_EXAMPLE = "postgresql://wasmrt@db.example.com/wasmrt"
_CLOSED = (None, "57P01", "57P02", "57P03")
"""The states of errors for closed connections: None (lost), shutdown by an administrator, crash, starting up."""
_SETTINGS = {
    "statement_timeout": f"{POSTGRES_STATEMENT_SECONDS}s",
    "lock_timeout": f"{POSTGRES_STATEMENT_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{POSTGRES_STATEMENT_SECONDS}s",
    "synchronous_commit": "on",  # SECURITY: a used answer stays used after the server crashes
}
_BEGIN_WRITE = "BEGIN; SELECT number FROM wasmrt_version"
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SELECT number FROM wasmrt_version"
_SET_OWNER = "SELECT set_config('wasmrt.owner', %s, true), set_config('statement_timeout', %s, true)"
_LOCK_OWNER = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))"


@dataclass(frozen=True, slots=True)
class Postgres:
    """A PostgreSQL database for the stores of several hosts. Needs the extra `wasmrt[postgres]`.

    Args:
        url: A URL such as `postgresql://wasmrt@db.example.com/wasmrt`, or with `?host=/run/postgresql` for a socket.
        password: Returns the password for each new connection; by default from the URL, PGPASSWORD or PGPASSFILE.
        unsafe_without_tls: Accept a server on another host without checking its certificate.

    Raises:
        ConfigurationError: the URL is invalid, or does not require TLS although the server is on another host.

    Examples:
        >>> from pathlib import Path
        >>> from wasmrt import ConfirmationTokens, Postgres
        >>> tokens = ConfirmationTokens(Postgres("postgresql://wasmrt@localhost/wasmrt"), Path("tokens.key"))
    """

    url: str = field(repr=False)  # it may contain a password
    password: Callable[[], str] | None = field(default=None, repr=False)
    unsafe_without_tls: bool = False

    def __post_init__(self) -> None:
        parameters = self._read_parameters()
        unknown = sorted(parameters.keys() - _PARAMETERS)
        if unknown or not parameters.get("host"):
            problem = f"has the unknown parameter {unknown[0]}" if unknown else "names no host"
            raise ConfigurationError(f"the URL of the database {problem}", hint=f'write it like "{_EXAMPLE}"')
        # SECURITY: otherwise, a machine in between could answer approval requests and accept used tokens.
        if not (self.unsafe_without_tls or _is_local(parameters["host"]) or parameters["sslmode"] == "verify-full"):
            raise ConfigurationError(
                f"the URL of the database sets sslmode={parameters['sslmode']}, and its server is on another host",
                hint="use sslmode=verify-full, or set database.unsafe_without_tls",
            )

    def _read_parameters(self) -> dict[str, Any]:
        """Return the connection parameters of the URL."""
        if not self.url.startswith(("postgresql://", "postgres://")):
            raise ConfigurationError("the database must be a PostgreSQL URL", hint=f'write it like "{_EXAMPLE}"')
        try:
            found = conninfo_to_dict(self.url)
        except psycopg.Error:
            found = None
        if found is None:  # SECURITY: outside of `except`, because the message of psycopg may contain the password
            raise ConfigurationError("the URL of the database is invalid", hint=f'write it like "{_EXAMPLE}"')
        if not self.unsafe_without_tls and not _is_local(str(found.get("host"))):
            found = {"sslmode": "verify-full", **found}
            if found["sslmode"] == "verify-full":
                found = {"sslrootcert": "system", **found}
        return found

    def open(self, name: str, schema: str, version: int, *, unusable: Callable[[str], WasmrtError]) -> PostgresDatabase:
        """Return the store `name`, which has its own schema in the database. See `wasmrt.core.database.open_store`."""
        return PostgresDatabase(self, f"wasmrt_{name}", schema, version, unusable=unusable)

    def describe(self) -> str:
        """Return the version and the host of the server, as text. It raises the errors of `connect`."""
        with self.connect("pg_catalog") as db:
            return f"PostgreSQL {db.info.server_version // 10_000} on {db.info.host}"

    def connect(self, schema: str) -> psycopg.Connection[Row]:
        """Open a connection on which unqualified names are looked up only in `schema`.

        Raises:
            psycopg.Error: the server cannot be reached, or refuses the connection.
        """
        parameters = self._read_parameters()
        if self.password is not None:
            parameters["password"] = self.password()
        options = " ".join(f"-c {name}={value}" for name, value in {"search_path": schema, **_SETTINGS}.items())
        return psycopg.connect(
            **parameters,
            options=options,
            connect_timeout=POSTGRES_CONNECT_SECONDS,
            tcp_user_timeout=POSTGRES_STATEMENT_SECONDS * 1000,
            # SECURITY: a standby could return answers that were already used or forgotten.
            target_session_attrs="read-write",
            application_name="wasmrt",
            autocommit=True,
            row_factory=_make_row,
        )


class Row(Sequence[Any]):
    """A row whose values are read by position or by the name of their column."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: Mapping[str, int], values: Sequence[Any]) -> None:
        self._names = names
        self._values = values

    def __getitem__(self, key: Any) -> Any:
        return self._values[self._names[key] if isinstance(key, str) else key]

    def __len__(self) -> int:
        return len(self._values)


class Connection:
    """A connection that executes the SQL of the stores, which is written for SQLite."""

    def __init__(self, db: psycopg.Connection[Row], lifetime: Lifetime | None = None) -> None:
        self._db = db
        self._lifetime = lifetime

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Row]:
        """Execute a statement with `?` for each value."""
        if self._lifetime is not None:
            self._lifetime.check()
        return self._db.execute(_translate(sql), values)


class PostgresDatabase:
    """A store with a fixed schema in a PostgreSQL database. The first use creates its tables.

    Every problem with the database is raised as the error that the function `unusable` returns for the reason.
    """

    exists = True

    def __init__(
        self, server: Postgres, name: str, schema: str, version: int, *, unusable: Callable[[str], WasmrtError]
    ) -> None:
        self._server = server
        self._name = name
        self._schema = schema
        self._version = version
        self._unusable = unusable
        self._idle: list[tuple[int, psycopg.Connection[Row]]] = []
        """Open connections, each with the process that opened it: a connection must not be used after a fork."""
        weakref.finalize(self, _close_idle, self._idle).atexit = False  # a part of a cycle is finalized in any order

    def now_ms(self, db: Any) -> int:
        """Return the time of the server in Unix milliseconds."""
        return int(db.execute(f"SELECT {POSTGRES_NOW_MS}").fetchall()[0][0])

    def close(self) -> None:
        """Close the idle connections. The store can still be used."""
        _close_idle(self._idle)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection for queries."""
        with self.translated(), self._begin("SELECT number FROM wasmrt_version") as db:
            yield Connection(db)

    @contextmanager
    def writing(self, *, scrub: bool = False) -> Iterator[Connection]:
        """Open a transaction that excludes all other writers of the store, and commit it if the block succeeds.

        `scrub` has no effect: PostgreSQL itself decides when it overwrites deleted rows.
        """
        with self.translated(), self._begin("BEGIN; SELECT number FROM wasmrt_version FOR UPDATE") as db:
            yield Connection(db)
            self._commit(db)

    @contextmanager
    def owned(self, owner: str, *, write: bool, lifetime: Lifetime | None = None) -> Iterator[Connection]:
        """Open a transaction on the rows of one owner, for a store whose views show the rows of `wasmrt.owner`.

        Two transactions cannot write the rows of the same owner at once. Readers see one state of the store, and cannot
        write.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: `lifetime` ended, and nothing was changed.
        """
        with self.translated(), self._begin(_BEGIN_WRITE if write else _BEGIN_READ) as db:
            try:
                seconds = POSTGRES_STATEMENT_SECONDS if lifetime is None else lifetime.remaining()
                limit = f"{max(1, int(min(seconds, POSTGRES_STATEMENT_SECONDS) * 1000))}ms"
                # SECURITY: until the end of this transaction; outside of it, the views show no rows
                db.execute(_SET_OWNER, (owner, limit))
                if write:
                    db.execute(_LOCK_OWNER, (f"{self._name} {owner}",))
                yield Connection(db, lifetime)
                self._commit(db)
            except psycopg.errors.QueryCanceled:
                if lifetime is not None:
                    lifetime.check()
                raise

    def _commit(self, db: psycopg.Connection[Row]) -> None:
        if db.execute(b"COMMIT").statusmessage != "COMMIT":  # a statement failed, and the block ignored that
            raise self._unusable("the transaction was rolled back")

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Convert errors of PostgreSQL and about unreadable rows to the error from `unusable`."""
        try:
            yield
        except psycopg.Error as error:
            # Without the detail of the error, which may quote a row.
            reason = error.diag.message_primary or str(error).partition("\n")[0]
            raise self._unusable(reason or type(error).__name__) from error
        except (ValueError, KeyError, TypeError) as error:  # for example, an effect that only another version has
            raise self._unusable("a row was written by a different version of wasmrt") from error

    @contextmanager
    def _begin(self, sql: str) -> Iterator[psycopg.Connection[Row]]:
        """Yield a connection that has executed `sql`. The last statement of `sql` returns the version of the store."""
        db = self._start(sql)
        try:
            yield db
        finally:
            idle = not db.closed and db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            if idle and len(self._idle) < MAX_IDLE_POSTGRES_CONNECTIONS:
                self._idle.append((os.getpid(), db))
            else:
                db.close()  # an open transaction is rolled back

    def _start(self, sql: str) -> psycopg.Connection[Row]:
        """Execute the first statement on an idle connection, or on a new one if the server closed the idle ones."""
        while (db := _take(self._idle)) is not None:
            try:
                with _close_on_failure(db):
                    self._check_version(db, sql)
                    return db
            except psycopg.OperationalError as error:
                if error.sqlstate not in _CLOSED:
                    raise
        try:
            db = self._server.connect(self._name)
        except WasmrtError as error:  # the password cannot be read
            raise self._unusable(error.message) from error
        with _close_on_failure(db):
            try:
                self._check_version(db, sql)
            except psycopg.errors.UndefinedTable:
                db.rollback()
                self._create(db)
                self._check_version(db, sql)
        return db

    def _check_version(self, db: psycopg.Connection[Row], sql: str) -> None:
        cursor = db.execute(sql.encode())
        while cursor.nextset():
            pass
        if [row[0] for row in cursor.fetchall()] != [self._version]:
            raise self._unusable(f"{self._name} was written by a different version of wasmrt")

    def _create(self, db: psycopg.Connection[Row]) -> None:
        """Create the tables of the store in one transaction, unless another process has just created them."""
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(hashtextextended('wasmrt', 0))")
            db.execute(f"CREATE SCHEMA IF NOT EXISTS {self._name}".encode())
            if db.execute("SELECT to_regclass('wasmrt_version')").fetchall()[0][0] is None:
                db.execute(_translate(_translate_tables(self._schema)))
                db.execute(f"CREATE TABLE wasmrt_version AS SELECT {self._version} AS number".encode())


def _take(idle: list[tuple[int, psycopg.Connection[Row]]]) -> psycopg.Connection[Row] | None:
    """Return an idle connection of this process, or None."""
    with suppress(IndexError):
        while True:
            process, db = idle.pop()
            if process == os.getpid():  # psycopg leaves a connection of the parent process open
                return db
    return None


def _close_idle(idle: list[tuple[int, psycopg.Connection[Row]]]) -> None:
    while (db := _take(idle)) is not None:
        db.close()


@contextmanager
def _close_on_failure(db: psycopg.Connection[Row]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        db.close()
        raise


@lru_cache(maxsize=256)
def _translate(sql: str) -> bytes:
    """Return SQL for PostgreSQL.

    SECURITY: there, `user` without quotes is the database role, which would equal the user of no row or of every row.
    """
    return re.sub(r"\buser\b", '"user"', sql.replace("%", "%%").replace("?", "%s")).encode()


def _translate_tables(schema: str) -> str:
    """Return table definitions for PostgreSQL, which has other types for numbered rows and for 64-bit integers."""
    numbered = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    schema = re.sub(r"\bINTEGER PRIMARY KEY( AUTOINCREMENT)?", numbered, schema)
    return schema.replace("INTEGER", "BIGINT").replace(" WITHOUT ROWID", "")


def _make_row(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], Row]:
    names = {column.name: at for at, column in enumerate(cursor.description or ())}
    return lambda values: Row(names, values)


def _is_local(hosts: str) -> bool:
    """Return whether every host is a socket of this machine, localhost, or a loopback address."""
    return all(host == "localhost" or host.startswith("/") or _is_loopback(host) for host in hosts.split(","))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
