"""The tests that a mutant has to get past: those that run its lines, the quickest of each test function first."""

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
    """How many tests of a mutant's are chosen, and how long they may take together."""

    most_seconds: float
    most_tests: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Tests in the order in which they are to run, and how long all of them take."""

    tests: tuple[str, ...]
    seconds: float


class TestMap:
    """Which test runs which line of which module, from a run of the whole suite; kept in `folder`."""

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
            raise SystemExit("the map was made in another checkout: --map makes it anew")
        self._weights: dict[str, defaultdict[str, float]] = {}
        self._seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text())

    def select(self, mutant: Mutant, *, most_seconds: float = MOST_SECONDS, most_tests: int = MOST_TESTS) -> Selection:
        """Return the tests for a mutant, as many as fit into `most_seconds`."""
        lines = self._lines.get(mutant.module, {})
        own = set().union(*(lines.get(line, ()) for line in mutant.lines if not mutant.at_import))
        uses = sorted((tests for line in self._uses(mutant) if (tests := lines.get(line))), key=len)
        groups = [tests for tests in uses if not own or len(tests) < len(own)]
        # What is set where every test comes by is told apart where few do.
        all_of_them = own or set().union(*uses) or set().union(*lines.values())
        telling = self._telling(mutant.module)
        best = sorted(all_of_them, key=lambda test: (-telling.get(test, 0.0), self._seconds.get(test, 0.0), test))
        mixed = (test for pair in zip(best, self._in_turn(all_of_them), strict=True) for test in pair)
        return self._bounded([*map(self._in_turn, groups), mixed], most_seconds, most_tests)

    def use(self, seconds: dict[str, float]) -> None:
        """Take these times for tests' own; infinity for one that is not to be chosen."""
        self._seconds |= seconds

    def select_for(self, mutants: Iterable[Mutant]) -> Selection:
        """Return tests that `select` chooses for these mutants, those for most of them first."""
        chosen = Counter(test for mutant in mutants for test in self.select(mutant).tests)
        return self._bounded([[test for test, _ in chosen.most_common()]], MOST_SECONDS, MOST_TESTS)

    def _telling(self, module: str) -> dict[str, float]:
        """How much of a module each test runs that few others do: such a test is about this module."""
        if module not in self._weights:
            weights = self._weights[module] = defaultdict(float)
            for tests in self._lines.get(module, {}).values():
                for test in tests:
                    weights[test] += 1 / len(tests)
        return self._weights[module]

    def _uses(self, mutant: Mutant) -> set[int]:
        """Lines of the module that use what the changed statement gives a value."""
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
        """The quickest case of every test function, then the next of each: what is alike finds alike mistakes."""
        functions: defaultdict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: (self._seconds.get(test, 0.0), test)):
            functions[test.partition("[")[0]].append(test)
        return filter(None, chain.from_iterable(zip_longest(*functions.values())))


def make_map(root: Path, folder: Path, *paths: str) -> None:
    """Run the tests once, each line noted with the test that ran it."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    (folder / "data").mkdir(parents=True)
    environ = os.environ | {
        "COVERAGE_PROCESS_START": str(root / "pyproject.toml"),
        "COVERAGE_FILE": str(folder / "data/.coverage"),
        "WASMRT_TEST_SECONDS": str(folder / "seconds.json"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.mutation.contexts", "-p", "no:cacheprovider", *paths]
    subprocess.run(command, cwd=root, env=environ, check=False)  # a test that fails is left out of every selection
    data = coverage.Coverage(str(folder / ".coverage"), config_file=str(root / "pyproject.toml"))
    data.combine([str(folder / "data")])
    data.save()
