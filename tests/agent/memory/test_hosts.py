"""Hosts that share memory in PostgreSQL: documents of all hosts, users kept apart, and a database that is gone."""

from __future__ import annotations

import psycopg
import pytest

from tests.agent.memory.conftest import rows
from tests.agent.memory.embedder import LetterRuns
from tests.postgres_server import PostgresServer
from wasmrt.agent.builtin.memory import MemoryStore, Trust
from wasmrt.core.errors import MemoryStoreError
from wasmrt.core.postgres import Postgres
from wasmrt.runtime.memory import MemorySettings


def test_hosts_find_the_documents_and_vectors_of_each_other(postgres: Postgres) -> None:
    here, there = (MemoryStore(MemorySettings(embedder=LetterRuns()), postgres) for _ in range(2))
    here.write("ann", "a.md", "The vehicle needs new tyres.", trust=Trust.UNTRUSTED)
    assert here.embed_missing("ann") == 1
    assert there.embed_missing("ann") == 0
    (hit,) = there.search("ann", "automobile").hits
    assert (hit.path, hit.trust, hit.found_by) == ("a.md", Trust.UNTRUSTED, ("vector",))
    there.remove("ann", "a.md")
    assert here.search("ann", "vehicle").hits == () and here.entries("ann") == []


def test_users_have_separate_documents_with_equal_paths(postgres: Postgres) -> None:
    store = MemoryStore(place=postgres)
    for user in ("ann", "bob", "ANN"):
        store.write(user, "a.md", f"the code of {user} is secret{user}")
    for user in ("ann", "bob", "ANN"):
        assert [hit.content for hit in store.search(user, "code").hits] == [f"the code of {user} is secret{user}"]
        assert len(store.history(user, "a.md")) == 1
    assert store.search("bob", "secretann").hits == ()


@pytest.mark.parametrize("table", ["document", "version", "chunk", "vector", "word"])
def test_a_statement_without_an_owner_reads_no_rows(postgres: Postgres, table: str) -> None:
    MemoryStore(place=postgres).write("ann", "a.md", "text")
    with postgres.connect("wasmrt_memory") as db:
        with pytest.raises(psycopg.errors.UndefinedObject):
            db.execute(f"SELECT * FROM {table}".encode())
        with db.transaction():
            db.execute("SELECT set_config('wasmrt.owner', 'ann', true)")
        assert db.execute(f"SELECT * FROM {table}".encode()).fetchall() == []


def test_a_reader_sees_one_state_while_another_host_writes(postgres: Postgres) -> None:
    here, there = MemoryStore(place=postgres), MemoryStore(place=postgres)
    here.write("ann", "a.md", "old")
    with here._backend.reading("ann", None) as db:
        assert db is not None and db.execute("SELECT bytes FROM document").fetchall()[0][0] == 3
        there.write("ann", "a.md", "newest", append=False)
        assert db.execute("SELECT text FROM version").fetchall()[0][0] == "old"
    assert here.read("ann", "a.md").content == "newest"


def test_writers_of_different_users_do_not_wait_for_each_other(postgres: Postgres) -> None:
    store = MemoryStore(place=postgres)
    store.write("bob", "a.md", "first")
    with store._backend.writing("ann", None):
        assert store.write("bob", "a.md", "second").number == 2


def test_without_the_database_nothing_is_written_or_found(postgres: Postgres, postgres_server: PostgresServer) -> None:
    store = MemoryStore(place=postgres)
    store.write("ann", "a.md", "text")
    postgres_server.stop()
    try:
        for use in (
            lambda: store.write("ann", "a.md", "more"),
            lambda: store.search("ann", "text"),
            lambda: store.entries("ann"),
        ):
            with pytest.raises(MemoryStoreError) as caught:
                use()
            assert caught.value.code == "memory-store"
    finally:
        postgres_server.start()
    assert store.read("ann", "a.md").content == "text"


def test_a_row_with_an_unknown_trust_is_refused(postgres: Postgres) -> None:
    store = MemoryStore(place=postgres)
    store.write("ann", "a.md", "text")
    with rows(postgres, "ann") as db:
        db.execute("UPDATE version SET trust = 7")
    for use in (lambda: store.read("ann", "a.md"), lambda: store.search("ann", "text"), lambda: store.entries("ann")):
        with pytest.raises(MemoryStoreError, match="different version"):
            use()
