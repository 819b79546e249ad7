"""Search a memory for judged questions: nDCG@10 of words, vectors and both, and the time of 10,000 documents.

Sources: the Cranfield collection (cran.all.1400, cran.qry and cranqrel in one folder: 1,400 documents, 225 questions),
and 500 pages of tldr-pages for the 100 questions in memory_questions.txt.

Run: python -m benches.bench_memory CRANFIELD TLDR       (folders; needs wasmrt[embeddings])
With wordllama: Cranfield words 0.521, vectors 0.399, both 0.523; tldr-pages words 0.497, vectors 0.574, both 0.630.
"""

from __future__ import annotations

import math
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from wasmrt import MemorySettings
from wasmrt.agent.builtin.memory import MemoryStore, _search
from wasmrt.runtime.memory import WordLlamaEmbedder

_PAGES, _DEPTH, _MANY = 500, 10, 10_000
_MOST_RELEVANT = 5


class Collection(NamedTuple):
    """Documents, questions, and the relevance of documents for each question."""

    documents: dict[str, str]
    questions: list[str]
    relevance: list[dict[str, int]]


def read_cranfield(folder: Path) -> Collection:
    """Read the original files. Grade 1 is a complete answer, 4 of minimum interest; -1 is the question's source."""
    parts = re.findall(
        r"(?ms)^\.I (\d+)\n\.T\n(.*?)^\.W\n(.*?)(?=^\.I \d+\n\.T|\Z)", (folder / "cran.all.1400").read_text()
    )
    documents = {number: text.strip() or title.strip() or "-" for number, title, text in parts}
    questions = [
        part.split(".W\n")[1].strip() for part in re.split(r"(?m)^\.I \d+\n", (folder / "cran.qry").read_text())[1:]
    ]
    relevance: list[dict[str, int]] = [{} for _ in questions]
    for line in (folder / "cranqrel").read_text().splitlines():
        question, document, grade = line.split()
        relevance[int(question) - 1][document] = _MOST_RELEVANT - max(0, int(grade))
    judged = [n for n, grades in enumerate(relevance) if grades]
    return Collection(documents, [questions[n] for n in judged], [relevance[n] for n in judged])


def read_tldr(folder: Path) -> Collection:
    """Read the pages that answer a question, and others from the whole alphabet."""
    files: dict[str, Path] = {}
    for part in ("common", "linux"):
        files |= {file.stem: file for file in sorted((folder / "pages" / part).glob("*.md")) if file.stem not in files}
    lines = (Path(__file__).parent / "memory_questions.txt").read_text().splitlines()
    asked = [line.split(" | ") for line in lines if not line.startswith("#")]
    answers = list(dict.fromkeys(name for _, names in asked for name in names.split()))
    others = [name for name in sorted(files) if name not in answers]
    missing = _PAGES - len(answers)
    chosen = answers + [others[n * len(others) // missing] for n in range(missing)]
    relevance = [dict.fromkeys(names.split(), 1) for _, names in asked]
    return Collection({name: files[name].read_text() for name in chosen}, [each for each, _ in asked], relevance)


def ndcg(found: list[str], relevance: dict[str, int]) -> float:
    """Return the normalized discounted cumulative gain of the first ten documents."""

    def gain(grades: list[int]) -> float:
        return sum(grade / math.log2(place + 2) for place, grade in enumerate(grades[:_DEPTH]))

    return gain([relevance.get(name, 0) for name in found]) / gain(sorted(relevance.values(), reverse=True))


def judge(store: MemoryStore, collection: Collection) -> dict[str, float]:
    """Fill a memory, and return the mean nDCG@10 of each kind of search."""
    store.import_all("ann", collection.documents)
    while store.embed_missing("ann"):
        pass
    scores: dict[str, list[float]] = {"words": [], "vectors": [], "both": []}
    for question, relevance in zip(collection.questions, collection.relevance, strict=True):
        for kind, found in _rankings(store, question).items():
            scores[kind].append(ndcg(found, relevance))
    return {kind: statistics.mean(each) for kind, each in scores.items()}


def _rankings(store: MemoryStore, question: str) -> dict[str, list[str]]:
    vector = _vector(store, question)
    with store._backend.reading("ann", None) as db:
        assert db is not None
        words, near = (
            _search.search_text(store._backend, db, question),
            _search.search_vectors(store._backend, db, store._model, vector),
        )
        kinds = {"words": words, "vectors": near, "both": _search.fuse_scores([words, near])}
        paths = dict(db.execute("SELECT c.id, d.path FROM chunk c JOIN document d ON d.id = c.document").fetchall())
    return {kind: list(dict.fromkeys(paths[each.chunk] for each in found)) for kind, found in kinds.items()}


def _vector(store: MemoryStore, question: str) -> str:
    return _search.embed_texts(store._embedder, [question])[0]


def time_many(store: MemoryStore, collection: Collection) -> None:
    """Print the rate of writes, and the times of the parts of a search over 10,000 documents."""
    texts = list(collection.documents.values())
    started = time.perf_counter(), time.process_time()
    store.import_all("ann", {f"{n}.md": texts[n % len(texts)] for n in range(_MANY)})
    print(f"writes: {_MANY / (time.perf_counter() - started[0]):,.0f} a second, ", end="")
    print(f"{_MANY / (time.process_time() - started[1]):,.0f} a second of processor time")
    while store.embed_missing("ann"):
        pass
    vectors = {question: _vector(store, question) for question in collection.questions}
    with store._backend.reading("ann", None) as db:
        assert db is not None
        parts: dict[str, Callable[[str], object]] = {
            "vectors": lambda question: _search.search_vectors(store._backend, db, store._model, vectors[question]),
            "words": lambda question: _search.search_text(store._backend, db, question),
            "whole search": lambda question: store.search("ann", question),
        }
        for name, part in parts.items():
            times = sorted(_milliseconds(part, question) for question in collection.questions[:100])
            print(f"{name}, ms a question: fastest {times[0]:.1f}, median {times[50]:.1f}")


def _milliseconds(work: Callable[[str], object], question: str) -> float:
    started = time.thread_time()
    work(question)
    return (time.thread_time() - started) * 1000


def main(arguments: list[str]) -> int:
    """Print all figures; return 1 if both kinds together are worse than the better one by more than 0.005."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    cranfield, tldr = read_cranfield(Path(arguments[0])), read_tldr(Path(arguments[1]))
    worse = False
    with tempfile.TemporaryDirectory() as name:
        embedder = WordLlamaEmbedder()
        for title, collection in (("Cranfield", cranfield), ("tldr-pages", tldr)):
            store = MemoryStore(MemorySettings(path=Path(name) / title, embedder=embedder, max_user_bytes=2**30))
            found = judge(store, collection)
            print(f"{title}, nDCG@10:", ", ".join(f"{kind} {score:.3f}" for kind, score in found.items()))
            worse |= found["both"] < max(found["words"], found["vectors"]) - 0.005
        time_many(MemoryStore(MemorySettings(path=Path(name), embedder=embedder, max_user_bytes=2**30)), cranfield)
    return int(worse)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
