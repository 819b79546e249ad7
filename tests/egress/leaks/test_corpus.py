"""How much is found, and how little is mistaken, on text that was not written for these tests."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import pydoc_data.topics
import re
import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from wasmrt.egress.leaks import LeakDetector

DETECTOR = LeakDetector()
CORPUS = Path(__file__).resolve().parents[3].parent / "shared" / "corpora" / "leaks_train.jsonl.gz"


@lru_cache(maxsize=1)
def rows() -> list[dict[str, Any]]:
    if not CORPUS.exists():
        pytest.skip(f"the corpus {CORPUS.name} is not beside the project")
    with gzip.open(CORPUS, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_99_of_100_known_positives_are_found() -> None:
    positives = [row for row in rows() if row["expect"] and row["text"]]  # a row without text is about a file's name
    missed = [row["id"] for row in positives if not DETECTOR.scan(row["text"])]
    assert len(missed) <= len(positives) * 0.01, missed


TELLING = re.compile(
    r"""(?ix)(?:key|token\d?|secret|authorization) ["']? \s* [:=] \s* ["']? (?:basic\s+|bearer\s+)?
    ([\w.+/-]{32,}) (?:["'\s,;)]|$)"""
)
"""A name that tells of a secret, and a long value."""
ADMIN_KEY = re.compile("sk-ant-" + r"admin\d\d-[\w-]{93}AA")
"""A kind of key that the rule of another kind's negatives shows: its format leaves no doubt."""


def holds_another(text: str) -> bool:
    """Tell by a negative's text alone that a random value stands beside a telling name, whoever's it is."""
    return ADMIN_KEY.search(text) is not None or any(
        len(set(value)) >= 12 and re.search(r"\d", value) and re.search(r"[A-Za-z]", value)
        for value in TELLING.findall(text)
    )


def test_hardly_any_known_negative_is_mistaken() -> None:
    positives = {row["text"] for row in rows() if row["expect"]}
    negatives = [row for row in rows() if not row["expect"] and row["text"] not in positives]
    innocent = [row for row in negatives if not holds_another(row["text"])]
    assert len(innocent) > 0.8 * len(negatives)
    mistaken = [(row["id"], row["rule"]) for row in innocent if DETECTOR.scan(row["text"])]
    assert len(mistaken) <= len(innocent) * 0.01, mistaken


def prose() -> list[str]:
    texts = list(pydoc_data.topics.topics.values())
    texts += [d.metadata.get_payload() for d in importlib.metadata.distributions() if d.metadata]
    return [p for text in texts for p in str(text).split("\n\n") if len(p) > 80 and p.count(" ") > len(p) // 12]


def test_prose_raises_at_most_one_alarm_in_1000_paragraphs() -> None:
    paragraphs = prose()
    alarms = [(m.rule, p[:60]) for p in paragraphs for m in DETECTOR.scan(p).matches]
    assert len(paragraphs) > 1000
    assert len(alarms) <= len(paragraphs) / 1000, alarms


VECTORS = "SelfTest"
"""A cipher library's test vectors: private keys and hashes of passwords, which are what the rules look for."""


def test_installed_code_raises_at_most_two_alarms_in_10_megabytes() -> None:
    paths = sysconfig.get_paths()
    files = [f for root in (paths["purelib"],) for f in sorted(Path(root).rglob("*.py")) if VECTORS not in f.parts]
    alarms, size = [], 0
    for file in files:
        data = file.read_bytes()
        size += len(data)
        alarms += [f"{m.rule} {file.name}:{data.count(10, 0, m.start) + 1}" for m in DETECTOR.scan_bytes(data).matches]
        if size > 40_000_000:
            break
    assert size > 1_000_000
    assert len(alarms) <= max(2, 2 * size / 10_000_000), alarms
