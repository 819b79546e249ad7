"""Vectors compared in C, by sqlite-vec: where it is installed, and where this Python's sqlite3 loads extensions."""

from __future__ import annotations

import sqlite3
from importlib.util import find_spec

from wasmrt.agent.builtin.memory._vectors import nearest


def by_vector(db: sqlite3.Connection, model: str, vector: bytes, most: int) -> list[int]:
    """Return the pieces whose vectors are nearest to one by cosine, the nearest first."""
    if why_not_in_c() or not _loaded(db):
        kept = db.execute("SELECT chunk, value FROM vector WHERE model = ?", (model,))
        return nearest(vector, kept, most)
    found = db.execute(
        "SELECT chunk, CASE length(value) WHEN length(?1) THEN vec_distance_cosine(value, ?1) END AS distance "
        "FROM vector WHERE model = ?2 AND distance < 1 ORDER BY distance, chunk LIMIT ?3",
        (vector, model, most),
    )
    return [chunk for chunk, _ in found]


def why_not_in_c() -> str:
    """Return in words why vectors are compared in Python; empty where they are compared in C."""
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        return "this Python's sqlite3 loads no extensions"
    if find_spec("sqlite_vec") is None:
        return 'sqlite-vec is not installed: pip install "wasmrt[vectors]"'
    return ""


def _loaded(db: sqlite3.Connection) -> bool:
    """Load the extension into a connection; False where it cannot be."""
    import sqlite_vec

    db.enable_load_extension(True)
    try:
        db.load_extension(sqlite_vec.loadable_path())
    except sqlite3.OperationalError:  # built for another system
        return False
    finally:
        # SECURITY: on for this one library alone: SQL could load any other as long as it is.
        db.enable_load_extension(False)
    return True
