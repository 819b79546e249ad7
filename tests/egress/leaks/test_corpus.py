"""Recall and false alarms on the project's own corpus, on prose and on installed code."""

from __future__ import annotations

import importlib.metadata
import pydoc_data.topics
import tomllib
from pathlib import Path
from random import Random

import pytest

from tests.egress.leaks.examples import fill, shapes
from wasmrt.egress.leaks import LeakDetector

DETECTOR = LeakDetector()
INNOCENT = tomllib.loads(Path(__file__).with_name("innocent.toml").read_text("utf-8"))


NOTATIONS = (
    "{}",
    "value: {}",
    "# {} #",
    "the answer was\n{}\nand then it ended",
    "<td>{}</td>",
    "[{}]",
    "2026-01-01T00:00:00Z INFO got {}",
    "a,b,{}",
    "`{}`",
    "> {}",
)
"""Surroundings of a credential in the texts that tools return: logs, markup, tables, messages."""


@pytest.mark.ci("slow")
def test_at_least_99_of_100_credentials_are_found_in_every_notation() -> None:
    missed = []
    texts = [(rule_id, text) for rule_id, shape in shapes().items() for text in shape.examples]
    for notation in NOTATIONS:
        missed += [(rule_id, notation) for rule_id, text in texts if not DETECTOR.scan(notation.format(text))]
    assert len(texts) > 1000
    assert len(missed) <= len(texts) * len(NOTATIONS) * 0.01, missed


def test_at_most_one_in_100_secret_like_texts_raises_an_alarm() -> None:
    templates = [template for kind in INNOCENT.values() for template in kind["texts"]]
    texts = [fill(template, Random(seed)) for template in templates for seed in range(5)]
    alarms = [(match.rule, text) for text in texts for match in DETECTOR.scan(text).matches]
    assert len(templates) > 150
    assert len(alarms) <= len(texts) * 0.01, alarms


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
"""A cipher library's test vectors: private keys and password hashes, which the rules are meant to find."""


@pytest.mark.ci("slow")
def test_installed_code_raises_at_most_two_alarms_in_10_megabytes() -> None:
    installed = Path(pytest.__file__).parents[1]
    files = [f for f in sorted(installed.rglob("*.py")) if VECTORS not in f.parts]
    alarms, size = [], 0
    for file in files:
        data = file.read_bytes()
        size += len(data)
        alarms += [f"{m.rule} {file.name}:{data.count(10, 0, m.start) + 1}" for m in DETECTOR.scan_bytes(data).matches]
        if size > 40_000_000:
            break
    assert size > 1_000_000
    assert len(alarms) <= max(2, 2 * size / 10_000_000), alarms
