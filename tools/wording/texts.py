"""Collect the project's text by kind, and count markers of unclear phrasing in it."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
MARKERS = Path(__file__).with_name("markers.toml")
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_SENTENCE_WORDS = 4  # shorter string literals are names and keys, not messages


class Text(NamedTuple):
    """A piece of text that a person reads."""

    kind: str
    place: str
    """File and line, or a commit."""
    text: str


class Match(NamedTuple):
    """A marker that was found."""

    text: Text
    found: str
    instead: str


@dataclass(frozen=True)
class Report:
    """Matches, and words by kind."""

    matches: list[Match]
    words: Counter[str]
    limits: dict[str, float]

    @property
    def densities(self) -> dict[str, float]:
        """Markers in 1,000 words, by kind."""
        counts = Counter(match.text.kind for match in self.matches)
        return {kind: 1000 * counts[kind] / words for kind, words in sorted(self.words.items())}

    def above_limit(self) -> list[str]:
        """Return the kinds with more markers than their limit."""
        return [kind for kind, density in self.densities.items() if density > self.limits[kind]]


def scan(texts: Iterable[Text], markers: Path = MARKERS) -> Report:
    """Count the markers of `markers` in `texts`."""
    data: dict[str, Any] = tomllib.loads(markers.read_text(encoding="utf-8"))
    patterns = [
        (re.compile(marker["pattern"], re.IGNORECASE | re.MULTILINE), marker["instead"])
        for marker in data["markers"].values()
    ]
    matches: list[Match] = []
    words: Counter[str] = Counter()
    for text in texts:
        words[text.kind] += len(_WORD.findall(text.text))
        for pattern, instead in patterns:
            matches += [Match(text, found[0].strip(), instead) for found in pattern.finditer(text.text)]
    return Report(matches, words, data["limits"])


def project_texts(root: Path) -> Iterator[Text]:
    """Yield docs, docstrings, comments, messages and test names of the tracked files below `root`."""
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = root / name
        if not path.is_file() or name.startswith("guest-templates/"):
            continue
        if name.endswith(".md"):
            if name != "CHANGELOG.md":
                yield Text("docs", name, _CODE.sub(" ", path.read_text(encoding="utf-8")))
        elif name.endswith(".py"):
            yield from _python_texts(name, path.read_text(encoding="utf-8"))


def commit_subjects(root: Path, count: int) -> Iterator[Text]:
    """Yield the last `count` commit subjects."""
    if count:
        command = ["git", "log", f"-n{count}", "--format=%h %s"]
        for line in subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines():
            commit, _, subject = line.partition(" ")
            yield Text("subject", commit, _CODE.sub(" ", subject))


def _python_texts(name: str, source: str) -> Iterator[Text]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:", "#!")):
            yield Text("comment", f"{name}:{token.start[0]}", _CODE.sub(" ", token.string.lstrip("# ")))
    tree = ast.parse(source)
    docstrings = {id(node.value): node for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            yield Text("test-name", f"{name}:{node.lineno}", node.name.removeprefix("test_").replace("_", " "))
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) in docstrings:
            yield Text("docstring", f"{name}:{node.lineno}", _CODE.sub(" ", node.value))
        elif name.startswith("wasmrt/") and len(_WORD.findall(node.value)) >= _SENTENCE_WORDS:
            yield Text("message", f"{name}:{node.lineno}", _CODE.sub(" ", node.value))
