"""Killed writers and concurrent writers: a document is either the old or the new version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.approvals.processes import Killed, Step, Work
from tests.agent.memory.conftest import rows
from tests.postgres_server import Place
from tests.tiers import kills
from wasmrt.agent.builtin.memory import MemoryStore
from wasmrt.runtime.memory import MemorySettings

pytestmark = pytest.mark.ci("kills")

LINES = 2000


def check(store: MemoryStore, place: Place) -> int:
    """Check that the last write is complete and the indexes are consistent; return the newest version's number."""
    found = store.read("ann", "a.md")
    assert len(set(found.content.split())) == 1 and len(found.content.split()) == LINES
    assert found.content.split()[0] == f"w{found.number}"
    assert [hit.path for hit in store.search("ann", f"w{found.number}").hits][:1] == ["a.md"]
    with rows(place, "ann") as db:
        if isinstance(place, Path):
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            db.execute("INSERT INTO word (word) VALUES ('integrity-check')")
        chunks, words = db.execute("SELECT (SELECT count(*) FROM chunk), (SELECT count(*) FROM word)").fetchone()
        assert chunks == words
    return found.number


def test_killed_writer_leaves_the_old_or_the_new_document(store: MemoryStore, place: Place) -> None:
    killed, each = Killed(kills()), 4

    def work(step: Step) -> None:
        number = check(store, place) if store.entries("ann") else 0
        for n in range(number + 1, number + 1 + each):
            step()
            store.write("ann", "a.md", f"w{n} " * LINES, append=False)
            step()

    while killed.left > 0:
        killed.run(work, most=2 * each)
    assert check(store, place) > kills()


def test_concurrent_writers_in_several_processes_lose_no_text(place: Place) -> None:
    def writer(mark: str) -> Work:
        def work(step: Step) -> None:
            store = MemoryStore(MemorySettings(), place)
            for n in range(25):
                store.write("ann", "a.md", f"{mark}{n}")
                assert store.search("ann", f"{mark}{n}", limit=1).hits
                step()

        return work

    Killed(0).run(*map(writer, "xyz"), most=2)
    store = MemoryStore(MemorySettings(), place)
    assert sorted(store.read("ann", "a.md").content.split()) == sorted(f"{m}{n}" for m in "xyz" for n in range(25))
    assert [version.number for version in store.history("ann", "a.md")] == list(range(75, 0, -1))
