"""The tests for a mutant: the tests that run its lines, starting with the fastest one of each test function."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TypedDict

import coverage

from tools.mutation.mutants import Mutant

MOST_SECONDS = 8.0
MOST_TESTS = 60


class Bounds(TypedDict):
    """The maximum number of tests for a mutant, and their maximum total duration."""

    most_seconds: float
    most_tests: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Tests in execution order, and their total duration."""

    tests: tuple[str, ...]
    seconds: float


class TestMap:
    """A map of tests to the lines that they run, recorded in one run of all tests and stored in `folder`."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        data = coverage.CoverageData(str(folder / ".coverage"))
        data.read()
        self._lines: dict[str, dict[int, set[str]]] = {}
        for file in data.measured_files():
            path = Path(file)
            if path.is_relative_to(root):
                found = data.contexts_by_lineno(file)
                self._lines[str(path.relative_to(root))] = {line: set(tests) - {""} for line, tests in found.items()}
        if not self._lines:
            raise SystemExit("the map belongs to a different checkout; record it again with --map")
        self._weights: dict[str, defaultdict[str, float]] = {}
        self._seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text())

    def select(self, mutant: Mutant, *, most_seconds: float = MOST_SECONDS, most_tests: int = MOST_TESTS) -> Selection:
        """Return as many tests for a mutant as fit into `most_seconds`."""
        lines = self._lines.get(mutant.module, {})
        own = set().union(*(lines.get(line, ()) for line in mutant.lines if not mutant.at_import))
        uses = sorted((tests for line in self._uses(mutant) if (tests := lines.get(line))), key=len)
        groups = [tests for tests in uses if not own or len(tests) < len(own)]
        # A value that is set in a line that all tests run is better detected by tests of the few lines that use it.
        all_of_them = own or set().union(*uses) or set().union(*lines.values())
        telling = self._telling(mutant.module)
        best = sorted(all_of_them, key=lambda test: (-telling.get(test, 0.0), self._seconds.get(test, 0.0), test))
        mixed = (test for pair in zip(best, self._in_turn(all_of_them), strict=True) for test in pair)
        return self._bounded([*map(self._in_turn, groups), mixed], most_seconds, most_tests)

    def use(self, seconds: dict[str, float]) -> None:
        """Use these durations of tests; infinity excludes a test."""
        self._seconds |= seconds

    def select_for(self, mutants: Iterable[Mutant]) -> Selection:
        """Return the tests that `select` returns for these mutants, tests for most mutants first."""
        chosen = Counter(test for mutant in mutants for test in self.select(mutant).tests)
        return self._bounded([[test for test, _ in chosen.most_common()]], MOST_SECONDS, MOST_TESTS)

    def _telling(self, module: str) -> dict[str, float]:
        """Return how many rarely run lines of a module each test runs; many lines show that it tests this module."""
        if module not in self._weights:
            weights = self._weights[module] = defaultdict(float)
            for tests in self._lines.get(module, {}).values():
                for test in tests:
                    weights[test] += 1 / len(tests)
        return self._weights[module]

    def _uses(self, mutant: Mutant) -> set[int]:
        """Return the lines of the module that use the values that the statement assigns."""
        if not mutant.names:
            return set()
        tree = ast.parse((self._root / mutant.module).read_text())
        return {
            node.lineno
            for node in ast.walk(tree)
            if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in mutant.names)
            or (isinstance(node, ast.Attribute) and node.attr in mutant.names)
        }

    def _bounded(self, groups: Iterable[Iterable[str]], most_seconds: float, most_tests: int) -> Selection:
        chosen: dict[str, float] = {}
        seconds = 0.0
        for test in chain.from_iterable(groups):
            takes = self._seconds.get(test, 1.0)
            if test not in chosen and len(chosen) < most_tests and seconds + takes <= most_seconds:
                chosen[test] = takes
                seconds += takes
        return Selection(tuple(chosen), seconds)

    def _in_turn(self, tests: Iterable[str]) -> Iterable[str]:
        """Yield the fastest case of every test function, then the second: similar cases find the same mistakes."""
        functions: defaultdict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: (self._seconds.get(test, 0.0), test)):
            functions[test.partition("[")[0]].append(test)
        return filter(None, chain.from_iterable(zip_longest(*functions.values())))


def make_map(root: Path, folder: Path, *paths: str) -> None:
    """Run all tests once, and record which test runs which line."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    (folder / "data").mkdir(parents=True)
    environ = os.environ | {
        "COVERAGE_PROCESS_START": str(root / "pyproject.toml"),
        "COVERAGE_FILE": str(folder / "data/.coverage"),
        "WASMRT_TEST_SECONDS": str(folder / "seconds.json"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.mutation.contexts", "-p", "no:cacheprovider", *paths]
    subprocess.run(command, cwd=root, env=environ, check=False)  # failing tests are never selected
    data = coverage.Coverage(str(folder / ".coverage"), config_file=str(root / "pyproject.toml"))
    data.combine([str(folder / "data")])
    data.save()
