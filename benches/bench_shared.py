"""Memory in SQLite and in PostgreSQL: documents written one by one, and searches, a second.

Both have a memory of 2,000 documents. The server is on this machine, with the defaults of a new cluster.

Run: python -m benches.bench_shared       (needs Debian's postgresql, or initdb in PATH)
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.agent.memory.embedder import LetterRuns
from tests.postgres_server import PostgresServer, find_programs
from wasmrt import MemorySettings, MemoryStore
from wasmrt.core.postgres import Postgres

_DOCUMENTS, _WRITES, _SEARCHES, _USERS = 2000, 200, 200, 4


def make_texts(count: int) -> list[str]:
    """Return texts of 120 words each. As in a language, a few of the 5,000 words are frequent."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnoprstuvw", k=chance.randrange(3, 10))) for _ in range(5000)]
    return [" ".join(words[int(5000 * chance.random() ** 3)] for _ in range(120)) for _ in range(count)]


def rate(work: Callable[[int], object], count: int) -> float:
    """Return how often `work` runs in a second."""
    started = time.perf_counter()
    for n in range(count):
        work(n)
    return count / (time.perf_counter() - started)


def rate_of_users(store: MemoryStore, texts: list[str]) -> float:
    """Return the writes a second of several users at once."""

    def write(user: int) -> None:
        for n in range(_WRITES // _USERS):
            store.write(f"user {user}", f"{n}.md", texts[n], append=False)

    started = time.perf_counter()
    threads = [threading.Thread(target=write, args=(user,)) for user in range(_USERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _WRITES / (time.perf_counter() - started)


def measure(place: Path | Postgres, texts: list[str]) -> dict[str, float]:
    """Fill a memory, and return the rates of its uses."""
    store, vectors = MemoryStore(place=place), MemoryStore(MemorySettings(embedder=LetterRuns()), place)
    questions = [" ".join(text.split()[:6]) for text in texts]
    started = time.perf_counter()
    store.import_all("ann", {f"{n}.md": text for n, text in enumerate(texts)})
    found = {"documents imported in one transaction": len(texts) / (time.perf_counter() - started)}
    found["documents written"] = rate(lambda n: store.write("ann", f"{n}.md", texts[n], append=False), _WRITES)
    found[f"documents written by {_USERS} users at once"] = rate_of_users(store, texts)
    found["documents read"] = rate(lambda n: store.read("ann", f"{n}.md"), _SEARCHES)
    found["searches by words"] = rate(lambda n: store.search("ann", questions[n]), _SEARCHES)
    while vectors.embed_missing("ann"):
        pass
    found["searches by words and vectors"] = rate(lambda n: vectors.search("ann", questions[n]), _SEARCHES)
    return found


def main() -> int:
    """Print the rates of both, and their ratio."""
    texts = make_texts(_DOCUMENTS)
    server = PostgresServer(find_programs()[-1], durable=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            sqlite = measure(Path(folder), texts)
        postgres = measure(server.empty_database("bench"), texts)
    finally:
        server.remove()
    print(f"{'a second':45}{'SQLite':>10}{'PostgreSQL':>12}{'ratio':>8}")
    for name, figure in sqlite.items():
        print(f"{name:45}{figure:10,.0f}{postgres[name]:12,.0f}{postgres[name] / figure:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
