"""Vectors of texts: their stored form, and a search for the nearest."""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Iterable, Sequence
from operator import mul

from wasmrt.core.errors import MemoryStoreError
from wasmrt.core.limits import MAX_EMBEDDING_DIMENSIONS
from wasmrt.runtime.memory import Embedder


def unit_vectors(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    """Return the vectors of texts, of length 1, as 32-bit numbers.

    Raises:
        MemoryStoreError: the embedder failed, or answered with something else than a vector for each.
    """
    try:
        found = [array("f", map(float, vector)) for vector in embedder.embed(texts)]
        lengths = {len(vector) for vector in found}
        if len(found) != len(texts) or len(lengths) != 1 or not 1 <= lengths.pop() <= MAX_EMBEDDING_DIMENSIONS:
            raise _failed("answered with something else than a vector for each text")
        return [_unit(vector) for vector in found]
    except MemoryStoreError:
        raise
    except Exception as error:  # a service that does not answer, a bug in somebody else's code
        raise _failed(f"failed with {type(error).__name__}") from error


def nearest(query: bytes, candidates: Iterable[tuple[int, bytes]], most: int) -> list[int]:
    """Return the keys of the vectors that are nearest to `query` by cosine, the nearest first.

    Those at a right angle or beyond have nothing in common with it, and are left out.
    """
    wanted = array("f", query)
    size = len(query)
    scored = ((sum(map(mul, wanted, array("f", kept))), -key) for key, kept in candidates if len(kept) == size)
    return [-key for score, key in heapq.nlargest(most, scored) if score > 0]


def _unit(vector: array[float]) -> bytes:
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not math.isfinite(length):
        raise _failed("answered with numbers that are none")
    return array("f", (part / length for part in vector)).tobytes() if length else vector.tobytes()


def _failed(what: str) -> MemoryStoreError:
    return MemoryStoreError(f"the embedder {what}", code="embedder", hint="look at the embedder; words are searched")
