"""Vectors: similarity, a memory without numpy, and a real model from a wheel."""

from __future__ import annotations

import math
import random
import socket
from collections.abc import Sequence
from importlib.util import find_spec
from operator import mul
from pathlib import Path

import pytest

from tests.agent.memory.embedder import LetterRuns
from tests.agent.memory.test_search import NOTES, fill, quality
from tests.postgres_server import Place
from wasmrt.agent.builtin.memory import MemoryStore, _search, vector_problem
from wasmrt.agent.config import read_config_file
from wasmrt.core.errors import ConfigFileError, ConfigurationError
from wasmrt.runtime.memory import MemorySettings, WordLlamaEmbedder

needs_model = pytest.mark.skipif(find_spec("wordllama") is None, reason="wordllama is not installed")


class Table:
    """An embedder that looks vectors up: of `note 7`, the vector number 7."""

    name = "table"

    def __init__(self, vectors: list[list[float]]) -> None:
        self.vectors = vectors

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vectors[int(text.split()[-1])] for text in texts]


def test_vectors_are_ranked_by_cosine_similarity(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_search, "_COMPARE_AT_ONCE", 50)
    chance = random.Random(7)
    vectors = [[chance.gauss(0, 1) for _ in range(64)] for _ in range(200)]
    vectors[3] = [0.0] * 64
    store = MemoryStore(MemorySettings(embedder=Table([[9 * part for part in each] for each in vectors])), place)
    store.import_all("ann", {f"{n}.md": f"note {n}" for n in range(200)})

    def cosine(n: int, m: int) -> float:
        product: float = sum(map(mul, vectors[n], vectors[m]))
        return product / math.hypot(*vectors[n]) / (math.hypot(*vectors[m]) or 1)

    for asked in (0, 60, 199):
        nearest = sorted(range(200), key=lambda n: -cosine(asked, n))[:5]
        hits = store.search("ann", f"xyz {asked}", limit=20).hits
        found = [int(hit.path.removesuffix(".md")) for hit in hits if hit.found_by == ("vector",)]
        assert found[:4] == nearest[1:]  # the words find `asked`


def test_without_numpy_only_the_text_is_searched(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_search, "find_spec", lambda name: None)
    store = fill(MemoryStore(MemorySettings(embedder=LetterRuns()), place))
    found = store.search("ann", "Aurora")
    assert found.search == "full-text" and [hit.path for hit in found.hits] == ["work/meetings.md"]
    assert "wasmrt[vectors]" in found.note and "wasmrt[vectors]" in vector_problem()


@pytest.mark.ci("slow")
@needs_model
def test_hybrid_search_with_a_real_model_uses_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    embedder = WordLlamaEmbedder()
    words = fill(MemoryStore(MemorySettings(path=tmp_path / "words")))
    both = fill(MemoryStore(MemorySettings(path=tmp_path / "both", embedder=embedder)))
    texts = dict(zip(NOTES, embedder.embed(list(NOTES.values())), strict=True))
    size = {path: sum(part * part for part in text) ** 0.5 for path, text in texts.items()}

    def by_vectors(question: str) -> list[str]:
        (wanted,) = embedder.embed([question])
        near = {
            path: sum(a * b for a, b in zip(wanted, text, strict=True)) / size[path] for path, text in texts.items()
        }
        return sorted(near, key=lambda path: -near[path])

    by_words = quality(lambda question: [hit.path for hit in words.search("ann", question).hits])
    hybrid = quality(lambda question: [hit.path for hit in both.search("ann", question).hits])
    assert hybrid >= max(by_words, quality(by_vectors)) and by_words < 0.7
    assert both.search("ann", "dog").search == "hybrid"


@needs_model
def test_configuration_selects_the_embedder(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[memory]\nembedder = "wordllama"\n')
    assert read_config_file(path).runtime["memory"].embedder.name == "wordllama-l2-supercat-256"
    path.write_text('[memory]\nembedder = "best"\n')
    with pytest.raises(ConfigFileError, match="embedder"):
        read_config_file(path)


def test_missing_model_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.runtime.memory.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError) as caught:
        WordLlamaEmbedder()
    assert "wasmrt[embeddings]" in (caught.value.hint or "")
