"""Vectors: a real model from a wheel, and comparison with sqlite-vec if a local Python can load it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.agent.memory.test_search import NOTES, fill, quality
from wasmrt.agent.builtin.memory import MemoryStore, _search, vector_fallback_reason
from wasmrt.agent.config import read_config_file
from wasmrt.core.errors import ConfigFileError, ConfigurationError
from wasmrt.runtime.memory import MemorySettings, WordLlamaEmbedder

needs_model = pytest.mark.skipif(find_spec("wordllama") is None, reason="wordllama is not installed")
COMPARE = """
import json, random, sqlite3, sys
from array import array
from wasmrt.agent.builtin.memory import _search
from wasmrt.agent.builtin.memory._search import find_nearest
assert not _search.vector_fallback_reason(), _search.vector_fallback_reason()
chance = random.Random(7)
def vector(size=16):
    return array("f", (chance.uniform(-1, 1) for _ in range(size))).tobytes()
db = sqlite3.connect(":memory:")
db.execute("CREATE TABLE vector (chunk INTEGER PRIMARY KEY, model TEXT, value BLOB)")
rows = [(n, "m", vector()) for n in range(500)] + [(n, "other", vector()) for n in range(500, 600)]
rows += [(600, "m", vector(8)), (601, "m", array("f", [0.0] * 16).tobytes())]
db.executemany("INSERT INTO vector VALUES (?, ?, ?)", rows)
same = 0
for _ in range(20):
    asked = vector()
    found = _search.search_vectors(db, "m", asked, 50)
    def unit(data):
        size = sum(y * y for y in array("f", data)) ** 0.5
        return array("f", (x / size for x in array("f", data))).tobytes()
    expected = find_nearest(unit(asked), [(n, unit(v)) for n, m, v in rows if m == "m" and len(v) == 64 and any(v)], 50)
    same += found == expected
try:
    db.execute("SELECT load_extension('/nowhere')")
    print(json.dumps("SQL loads extensions"))
except sqlite3.OperationalError as error:
    print(json.dumps([same, "not authorized" in str(error)]))
"""


def python_that_loads_extensions() -> str | None:
    """Return a Python of the running version whose sqlite3 can load extensions, or None."""
    for name in (sys.executable, f"/usr/bin/python3.{sys.version_info[1]}", shutil.which("python3") or ""):
        probe = f"import sys, sqlite3; sys.exit(sys.version_info[1] != {sys.version_info[1]} or not hasattr("
        probe += "sqlite3.Connection, 'enable_load_extension'))"
        if name and Path(name).exists() and subprocess.run([name, "-c", probe]).returncode == 0:
            return name
    return None


@pytest.mark.skipif(find_spec("sqlite_vec") is None, reason="sqlite-vec is not installed")
def test_sqlite_vec_ranks_like_python_and_sql_cannot_load_extensions() -> None:
    python = python_that_loads_extensions()
    if python is None:
        pytest.skip("no Python of this version can load SQLite extensions")
    root = Path(__file__).parents[3]
    env = {"PYTHONPATH": os.pathsep.join([str(root), *(path for path in sys.path if "site-packages" in path)])}
    found = subprocess.run([python, "-c", COMPARE], env=env, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == [20, True]


def test_without_sqlite_vec_vectors_are_compared_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        pass

    monkeypatch.setattr(sqlite3, "Connection", Plain)
    assert "cannot load extensions" in vector_fallback_reason()
    Plain.enable_load_extension = True  # type: ignore[attr-defined]
    monkeypatch.setattr(_search, "find_spec", lambda name: None)
    assert "wasmrt[vectors]" in vector_fallback_reason()


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
