"""A PostgreSQL server for this test run, on a Unix socket, and places for stores on both backends."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wasmrt.core.postgres import Postgres

PASSWORD = "pass" + "-word"
Place = Path | Postgres
StorePlace = Callable[[Path], Place]


class PostgresServer:
    """A server that can be stopped and started. It runs as an unprivileged user, which it requires."""

    def __init__(self, programs: Path, *, durable: bool = False) -> None:
        """With `durable`, a commit waits for the disk."""
        self._programs = programs
        self._durable = durable
        self.folder = Path(tempfile.mkdtemp(prefix="wasmrt-pg-"))  # readable for that user, and short, for the socket
        self._user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run("initdb", "-D", "data", "-U", "wasmrt", "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync")
        self.start()

    def start(self) -> None:
        settings = {
            "fsync": "on" if self._durable else "off", "listen_addresses": "''",
            "unix_socket_directories": f"'{self.folder}'", "max_connections": "200",
        }  # fmt: skip
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def url(self, database: str, password: str = PASSWORD) -> str:
        return f"postgresql://wasmrt:{password}@/{database}?host={self.folder}"

    def empty_database(self, name: str) -> Postgres:
        """Return a database without stores."""
        with Postgres(self.url("postgres")).connect("public") as db:
            if not db.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchall():
                db.execute(f"CREATE DATABASE {name}".encode())
        with Postgres(self.url(name)).connect("public") as db:
            for (store,) in db.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'wasmrt%'").fetchall():
                db.execute(f"DROP SCHEMA {store} CASCADE".encode())
        return Postgres(self.url(name))

    def _run(self, program: str, *arguments: str) -> None:
        user = {} if self._user is None else {"user": self._user.pw_uid, "group": self._user.pw_gid}
        subprocess.run(
            [self._programs / program, *arguments], cwd=self.folder, check=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, extra_groups=[] if user else None, **user,
        )  # fmt: skip


def find_programs() -> list[Path]:
    """Return the folders with the programs of PostgreSQL, the newest version last."""
    found = [Path(path).parent for path in (shutil.which("initdb"),) if path]
    return found + sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    found = find_programs()
    if not found:
        pytest.skip("NO POSTGRESQL: install postgresql, or the shared stores stay untested")
    server = PostgresServer(found[-1])
    yield server
    server.remove()


on_a_file = pytest.mark.parametrize("store_place", ["sqlite"], indirect=True)
"""For tests of the file itself."""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.ci("postgres"))])
def store_place(request: pytest.FixtureRequest) -> StorePlace:
    """Return where a store is on one of the two backends, for the path of a SQLite file."""
    if request.param == "sqlite":
        return lambda path: path
    server: PostgresServer = request.getfixturevalue("postgres_server")
    places: dict[Path, Place] = {}
    return lambda path: places.get(path) or places.setdefault(path, server.empty_database(f"test{len(places)}"))


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Postgres:
    """A database without stores."""
    return postgres_server.empty_database("test")
