"""An embedder without a model: hashed letter n-grams and a few synonyms.

It replaces a real embedder in tests of the mechanism: only misspellings and these synonyms are similar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

DIMENSIONS = 256
_SAME = {
    "car": "vehicle", "automobile": "vehicle", "doctor": "physician", "dentist": "physician", "money": "budget",
    "cash": "budget", "funds": "budget", "pet": "animal", "dog": "animal", "cat": "animal", "holiday": "vacation",
    "trip": "vacation", "meal": "food", "dinner": "food", "allergic": "allergy", "intolerance": "allergy",
    "spouse": "partner", "wife": "partner", "husband": "partner", "bug": "defect", "error": "defect",
    "deploy": "release", "ship": "release", "launch": "release",
}  # fmt: skip


class LetterRuns:
    name = "letter-runs-1"

    def __init__(self) -> None:
        self.calls = 0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += 1
        return [_vector(text) for text in texts]


def _vector(text: str) -> list[float]:
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w{3,}", text.lower()):
        whole = _SAME.get(word, word)
        for run in (f"={whole}", *(f"<{whole}>"[n : n + 3] for n in range(len(whole)))):
            code = crc32(run.encode())
            vector[code % DIMENSIONS] += (1.0 if code & 0x8000_0000 else -1.0) * (3.0 if run[0] == "=" else 1.0)
    return vector
