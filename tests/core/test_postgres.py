"""Stores in PostgreSQL: connections that are lost, servers that restart, and URLs that are refused."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.agent.approvals.processes import forking
from tests.postgres_server import PASSWORD, PostgresServer
from wasmrt.core.errors import ApprovalError, ConfigurationError, SecretNotFoundError
from wasmrt.core.postgres import Postgres, PostgresDatabase

SCHEMA = "CREATE TABLE entry (user TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;"


def opened(place: Postgres, version: int = 1) -> PostgresDatabase:
    return place.open("test", SCHEMA, version, unusable=ApprovalError)


def add(store: PostgresDatabase, user: str = "ann") -> None:
    with store.writing() as db:
        db.execute("INSERT INTO entry VALUES (?, ?)", (user, 2**40))


def users(store: PostgresDatabase, user: str | None = None) -> list[str]:
    with store.reading() as db:
        found = db.execute("SELECT user FROM entry WHERE user = coalesce(?, user) ORDER BY user", (user,))
        return [row["user"] for row in found]


def end_connections(place: Postgres) -> None:
    with place.connect("public") as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = user"
        )


def test_the_column_user_is_not_the_role_of_the_connection(postgres: Postgres) -> None:
    store = opened(postgres)
    for user in ("ann", "ben", "wasmrt"):
        add(store, user)
    assert users(store) == ["ann", "ben", "wasmrt"]
    assert users(store, "ann") == ["ann"]
    assert users(store, "wasmrt") == ["wasmrt"]


def test_a_failed_block_changes_nothing(postgres: Postgres) -> None:
    store = opened(postgres)
    add(store)
    with pytest.raises(ZeroDivisionError), store.writing() as db:
        db.execute("DELETE FROM entry")
        1 / 0  # noqa: B018
    with pytest.raises(ApprovalError, match="does not exist"), store.writing() as db:
        db.execute("DELETE FROM entry")
        db.execute("DELETE FROM other")
    with pytest.raises(ApprovalError, match="rolled back"), store.writing() as db:
        db.execute("DELETE FROM entry")
        with pytest.raises(Exception, match="other"):
            db.execute("DELETE FROM other")
    assert users(store) == ["ann"]


def test_a_lost_connection_fails_its_transaction_and_no_later_one(postgres: Postgres) -> None:
    store = opened(postgres)
    add(store)
    with pytest.raises(ApprovalError), store.writing() as db:
        db.execute("DELETE FROM entry")
        end_connections(postgres)
    assert users(store) == ["ann"]
    end_connections(postgres)  # now the store has an idle connection
    add(store, "ben")
    assert users(store) == ["ann", "ben"]


def test_a_stopped_server_is_an_error_until_it_is_started_again(
    postgres: Postgres, postgres_server: PostgresServer
) -> None:
    store = opened(postgres)
    add(store)
    postgres_server.stop()
    try:
        for use in (add, users):
            with pytest.raises(ApprovalError) as caught:
                use(store)
            assert PASSWORD not in str(caught.value)
    finally:
        postgres_server.start()
    assert users(store) == ["ann"]


def test_a_store_of_another_version_is_refused(postgres: Postgres) -> None:
    add(opened(postgres))
    for use in (add, users):
        with pytest.raises(ApprovalError, match="different version"):
            use(opened(postgres, version=2))
    assert users(opened(postgres)) == ["ann"]


def test_concurrent_first_uses_create_one_store(postgres: Postgres) -> None:
    together = threading.Barrier(4)

    def first_use(_: int) -> None:
        together.wait(30)
        add(opened(postgres))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(first_use, range(4)))
    assert users(opened(postgres)) == ["ann"] * 4


def test_writers_exclude_each_other(postgres: Postgres) -> None:
    store = opened(postgres)
    add(store)
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as pool, postgres.connect("public") as watch:
        with store.writing() as db:
            other = pool.submit(add, opened(postgres), "ben")
            for _ in range(500):
                if other.done() or watch.execute(waiting).fetchall():
                    break
                threading.Event().wait(0.02)
            assert not other.done()
            db.execute("INSERT INTO entry VALUES ('cat', 1)")
        other.result(30)
    assert users(store) == ["ann", "ben", "cat"]


def test_a_forked_process_opens_its_own_connection(postgres: Postgres) -> None:
    store = opened(postgres)
    add(store)
    with forking():
        child = os.fork()
    if child == 0:
        code = 1
        try:
            add(store, "child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert users(store) == ["ann", "child"]


def test_the_password_may_come_from_a_function(postgres_server: PostgresServer, postgres: Postgres) -> None:
    url = postgres.url.replace(f":{PASSWORD}@", "@")
    add(opened(Postgres(url, lambda: PASSWORD)))
    with pytest.raises(ApprovalError, match="password authentication failed") as caught:
        add(opened(Postgres(url, lambda: PASSWORD + "2")))
    assert PASSWORD not in str(caught.value)

    def missing() -> str:
        raise SecretNotFoundError("the secret is not set")

    with pytest.raises(ApprovalError, match="the secret is not set"):
        add(opened(Postgres(url, missing)))
    assert PASSWORD not in repr(postgres)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://u@localhost/x", "must be a PostgreSQL URL"),
        ("postgresql:///x", "names no host"),
        ("postgresql://u:pass%word@localhost/x", "is invalid"),
        ("postgresql://u@localhost/x?options=-csearch_path%3Dpublic", "unknown parameter options"),
        ("postgresql://u@localhost/x?hostaddr=192.0.2.1", "unknown parameter hostaddr"),
        ("postgresql://u@db.example.com/x?sslmode=require", "is on another host"),
        ("postgresql://u@localhost,db.example.com/x?sslmode=disable", "is on another host"),
        ("postgresql://u@192.0.2.1/x?sslmode=verify-ca", "is on another host"),
    ],
)
def test_a_url_that_is_invalid_or_without_tls_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        Postgres(url)
    assert "pass" not in str(caught.value) and caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "settings", "expected"),
    [
        ("postgresql://u@db.example.com/x", {}, ("verify-full", "system")),
        ("postgresql://u@db.example.com/x?sslmode=verify-full&sslrootcert=/ca.pem", {}, ("verify-full", "/ca.pem")),
        ("postgresql://u@db.example.com/x", {"unsafe_without_tls": True}, (None, None)),
        ("postgresql://u@[::1],127.0.0.1,localhost/x", {}, (None, None)),
        ("postgresql://u@/x?host=/run/postgresql", {}, (None, None)),
    ],
)
def test_the_certificate_of_another_host_is_checked(
    monkeypatch: pytest.MonkeyPatch, url: str, settings: dict[str, Any], expected: tuple[str | None, str | None]
) -> None:
    used: dict[str, Any] = {}
    monkeypatch.setattr("psycopg.connect", lambda **parameters: used.update(parameters))
    Postgres(url, **settings).connect("public")
    assert (used.get("sslmode"), used.get("sslrootcert")) == expected
    assert used["target_session_attrs"] == "read-write"
